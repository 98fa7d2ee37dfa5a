"""What ``config.json`` of a model directory says, as a config of transformers."""

from __future__ import annotations

from typing import Any

import msgspec
from transformers import PreTrainedConfig

from rela._version import __version__
from rela.model.config import ModelConfig
from rela.model.directory import FORMAT, MODEL_TYPE
from rela.text.vocabulary import BOS, EOS, PAD


class RelaConfig(PreTrainedConfig):
    """What ``config.json`` of a model directory says. ``model`` has the sizes and the attentions."""

    model_type = MODEL_TYPE
    keys_to_ignore_at_inference = ["past_key_values"]  # noqa: RUF012 (transformers reads it of the class)

    def __init__(
        self,
        model: dict[str, Any] | None = None,
        source_language: str = "source",
        target_language: str = "target",
        made_by: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        sizes = self._sizes(model)
        self.model = None if sizes is None else msgspec.to_builtins(sizes)
        self.source_language = source_language
        self.target_language = target_language
        self.made_by = made_by or {}
        self.format = FORMAT
        self.rela_version = kwargs.pop("rela_version", __version__)
        kwargs.pop("format", None)
        if sizes is not None:
            self.vocab_size = sizes.target_vocabulary
            self.hidden_size = sizes.dim
            self.num_attention_heads = sizes.num_heads
            self.num_hidden_layers = sizes.decoder_layers
            for name in ("vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers"):
                kwargs.pop(name, None)
        ours: dict[str, Any] = {
            "pad_token_id": PAD,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "decoder_start_token_id": BOS,
            "is_encoder_decoder": True,
            "tie_word_embeddings": sizes is not None and sizes.tied == "all",
        }
        super().__init__(**{**kwargs, **ours})

    @staticmethod
    def _sizes(model: dict[str, Any] | None) -> ModelConfig | None:
        if model is None:  # transformers compares a config with one that has nothing but defaults
            return None
        try:
            return msgspec.convert(model, ModelConfig)
        except (msgspec.ValidationError, ValueError) as error:
            raise ValueError(f"model: {error}") from None

    @property
    def sizes(self) -> ModelConfig:
        """The Transformer's."""
        found = self._sizes(self.model)
        if found is None:
            raise ValueError("expected a config with `model`, the sizes of a Transformer, got none")
        return found
