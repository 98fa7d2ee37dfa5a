"""The Transformer, its configuration, its directory format."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.model.config import SIZES as SIZES
    from rela.model.config import Attentions as Attentions
    from rela.model.config import ModelConfig as ModelConfig
    from rela.model.directory import Languages as Languages
    from rela.model.directory import LoadedModel as LoadedModel
    from rela.model.directory import find_model_folder as find_model_folder
    from rela.model.directory import load_model as load_model
    from rela.model.directory import save_model as save_model
    from rela.model.transformer import DecoderState as DecoderState
    from rela.model.transformer import Transformer as Transformer
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Attentions": "rela.model.config",
            "ModelConfig": "rela.model.config",
            "SIZES": "rela.model.config",
            "Languages": "rela.model.directory",
            "LoadedModel": "rela.model.directory",
            "find_model_folder": "rela.model.directory",
            "load_model": "rela.model.directory",
            "save_model": "rela.model.directory",
            "DecoderState": "rela.model.transformer",
            "Transformer": "rela.model.transformer",
        },
    )
