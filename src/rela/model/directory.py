"""Model directories: ``config.json``, ``model.safetensors``, ``tokenizer.json``. No code runs when one is loaded."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from rela._files import new_folder, write_text
from rela._version import __version__
from rela.model.config import ModelConfig
from rela.model.transformer import Transformer
from rela.text.store import SIDES, Tokenizers

MODEL_FOLDER: Final = "model"  # in a run's folder: the finished model
CHECKPOINTS_FOLDER: Final = "checkpoints"  # beside it
FORMAT: Final = "rela-model-1"
MODEL_TYPE: Final = "rela"  # by which Hugging Face's transformers knows it
CONVERTED_KEY: Final = "rela_attention"  # in the config of one of transformers' models: what was converted to what
CONFIG_FILE: Final = "config.json"
WEIGHTS_FILE: Final = "model.safetensors"
ALIGNMENT_FILE: Final = "alignment.json"  # which weights link words, if that was found out
QUALITY_FILE: Final = "quality.json"  # how good pairs are told from bad ones, if that was learned
_OWN_FILES: Final = {
    CONFIG_FILE,
    WEIGHTS_FILE,
    ALIGNMENT_FILE,
    QUALITY_FILE,
    "tokenizer.json",
    *(f"tokenizer.{side}.json" for side in SIDES),
}
_FINGERPRINT: Final = "rela_fingerprint"  # in the metadata of the weights
_SHOWN: Final = 5  # names in an error


class Languages(NamedTuple):
    """What is translated into what."""

    source: str
    target: str


class LoadedModel(NamedTuple):
    """A model directory in memory."""

    model: Transformer
    tokenizers: Tokenizers
    languages: Languages


def save_model(
    folder: Path, model: Transformer, tokenizers: Tokenizers, languages: Languages, made_by: dict[str, Any]
) -> None:
    """Write a model directory, whole or not at all. ``made_by`` says how the weights came about.

    A model that is there is replaced, anything else is refused.
    """
    check_replaceable(folder)
    with new_folder(folder) as partial:
        write_model_files(partial, model.state_dict(), model.config, tokenizers, languages, made_by)


def check_replaceable(folder: Path) -> None:
    """Refuse to put a model in the place of anything but a model of ours or an empty folder."""
    if not os.path.lexists(folder):
        return
    found = "something else"
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        if not names:
            return
        if CONFIG_FILE in names:
            try:
                _raw_description(folder)
            except (ValueError, OSError):
                found = f"something else, by its {CONFIG_FILE}"
            else:
                if names <= _OWN_FILES:
                    return
                found = f"one with other files in it, such as {min(names - _OWN_FILES)}"
    raise FileExistsError(
        f"{folder}: expected a new folder or a model to replace, got {found}; name another, or move it away"
    )


def write_model_files(
    folder: Path,
    weights: dict[str, Tensor],
    config: ModelConfig,
    tokenizers: Tokenizers,
    languages: Languages,
    made_by: dict[str, Any],
) -> None:
    """Write the files of a model directory into a folder that is there."""
    description = {
        "format": FORMAT,
        "model_type": MODEL_TYPE,
        "rela_version": __version__,
        "source_language": languages.source,
        "target_language": languages.target,
        "made_by": made_by,
        "model": msgspec.to_builtins(config),
    }
    write_text(folder / CONFIG_FILE, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
    metadata = {_FINGERPRINT: fingerprint(description, tokenizers)}  # safetensors writes several in any order
    write_tensors(folder / WEIGHTS_FILE, without_shared(weights), metadata)
    for name, content in tokenizers.files().items():
        write_text(folder / name, content)


def fingerprint(description: dict[str, Any], tokenizers: Tokenizers) -> str:
    """What weights belong with: a hash of configuration, languages and tokenizers. The weights' file carries it.

    Files of two models may fit each other in every size and still give nonsense together.
    """
    parts = [description[name] for name in ("model", "source_language", "target_language")]
    text = json.dumps([*parts, tokenizers.files()], sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def without_shared(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with each tensor once: tied embeddings are stored under their first name."""
    seen: dict[int, str] = {}
    # A tensor on the meta device has no memory; there it is itself that is shared.
    return {name: t for name, t in weights.items() if seen.setdefault(t.data_ptr() or id(t), name) == name}


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; an error names it."""
    path.touch()
    mode = path.stat().st_mode  # as for all other files; safetensors would leave it to its owner alone
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata)
        path.chmod(mode)
    except safetensors.SafetensorError as error:
        raise OSError(f"{path}: could not be written: {error}; is the disk full?") from None


@contextlib.contextmanager
def open_tensors(path: Path) -> Generator[Any]:
    """A safetensors file, to be read in parts; a missing or damaged one is an error that says so."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: expected a file of weights, got a folder; copy the file anew")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file of weights, there is none; copy it anew")
    try:
        with safetensors.safe_open(path, framework="pt") as file:  # pyright: ignore[reportPrivateImportUsage]
            yield file
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path}: expected a safetensors file, got a damaged one ({error}); copy it anew") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All of a safetensors file."""
    with open_tensors(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)


def read_fingerprint(path: Path) -> str | None:
    """The fingerprint in a weights' file."""
    with open_tensors(path) as file:
        return (file.metadata() or {}).get(_FINGERPRINT)


def load_model(folder: str | os.PathLike[str]) -> LoadedModel:
    """Load a model directory, and say what does not fit if something does not."""
    path = find_model_folder(Path(folder))
    description = read_description(path)
    config: ModelConfig = description["model"]
    tokenizers = Tokenizers.load(path, remedy="copy the model directory anew, with all of its files")
    for side, size in (("source", config.source_vocabulary), ("target", config.target_vocabulary)):
        found = getattr(tokenizers, side).size
        if found != size:
            raise ValueError(
                f"{path}: expected a {side} tokenizer of {size:,} pieces, as config.json says, got {found:,}; "
                "the files are of different models"
            )
    weights = read_tensors(path / WEIGHTS_FILE)
    with torch.device("meta"):  # names and shapes: no memory, no random numbers
        model = Transformer(config)
    check_weights(model, weights, path / WEIGHTS_FILE)
    written, by_transformers = read_fingerprint(path / WEIGHTS_FILE), "transformers_version" in description
    if not (written is None and by_transformers) and written != fingerprint(_raw_description(path), tokenizers):
        raise ValueError(
            f"{path}: expected {CONFIG_FILE} and tokenizers as they were when {WEIGHTS_FILE} was written, got others; "
            "the files are of different models, or were changed by hand"
        )
    _copy_weights(model.to_empty(device="cpu"), weights)
    return LoadedModel(
        model.eval(), tokenizers, Languages(description["source_language"], description["target_language"])
    )


def read_description(path: Path) -> dict[str, Any]:
    """Read and check ``config.json``; its entry ``model`` comes as a :class:`ModelConfig`."""
    file, description = path / CONFIG_FILE, _raw_description(path)
    try:
        description["model"] = msgspec.convert(description["model"], ModelConfig)
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{file}: model: {error}") from None
    return description


def read_languages(path: Path) -> Languages:
    """What a model directory translates into what, without loading it."""
    description = _raw_description(path)
    return Languages(description["source_language"], description["target_language"])


def _raw_description(path: Path) -> dict[str, Any]:
    """``config.json`` as it stands, if it is one of ours."""
    file = path / CONFIG_FILE
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: expected JSON, got {error}") from None
    if isinstance(description, dict) and CONVERTED_KEY in description:
        raise ValueError(
            f"{file}: expected a model of rela, got one of transformers that was converted; it translates by "
            "transformers' generate (import rela.integrations.huggingface first), and `rela align`, `rela analyze` and "
            "rela.inspect look into it"
        )
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        found = description.get("format") if isinstance(description, dict) else type(description).__name__
        raise ValueError(f"{file}: expected format {FORMAT!r}, got {found!r}; is this another program's model?")
    missing = {"source_language", "target_language", "model"} - description.keys()
    if missing:
        raise ValueError(f"{file}: expected the entries {', '.join(sorted(missing))}, which are not there")
    for name in ("source_language", "target_language"):
        if not isinstance(description[name], str):
            raise ValueError(f"{file}: {name}: expected the name of a language, got {description[name]!r}")
    return description


def fill_weights(model: Transformer, weights: dict[str, Tensor], file: Path) -> None:
    """Load weights into a model, or say what is wrong with them."""
    check_weights(model, weights, file)
    _copy_weights(model, weights)


def _copy_weights(model: Transformer, weights: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in without_shared(model.state_dict()).items():
            tensor.copy_(weights[name])


def check_weights(model: Transformer, weights: dict[str, Tensor], file: Path) -> None:
    """Say which weights are missing, too many, of another shape or not finite."""
    expected = without_shared(model.state_dict(keep_vars=True))
    problems = [
        *_names("missing", [name for name in expected if name not in weights]),
        *_names("unknown", [name for name in weights if name not in expected]),
        *_names(
            "of another shape or type",
            [
                f"{name} (expected {tuple(tensor.shape)} {tensor.dtype}, got {tuple(weights[name].shape)} "
                f"{weights[name].dtype})"
                for name, tensor in expected.items()
                if name in weights and (weights[name].shape, weights[name].dtype) != (tensor.shape, tensor.dtype)
            ],
        ),
    ]
    if problems:
        raise ValueError(f"{file}: the weights do not fit config.json: {'; '.join(problems)}")
    broken = [name for name, tensor in weights.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        raise ValueError(f"{file}: expected finite weights, got NaN or infinity in {', '.join(broken[:_SHOWN])}")


def _names(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{what}: {', '.join(names[:_SHOWN])}{more}"]


def find_model_folder(path: Path) -> Path:
    """The model directory that a path means: itself, or in a run's folder the finished model."""
    if (path / CONFIG_FILE).is_file():
        return path
    if (path / MODEL_FOLDER / CONFIG_FILE).is_file():
        return path / MODEL_FOLDER
    if (path / CHECKPOINTS_FOLDER).is_dir():
        raise FileNotFoundError(
            f"{path}: the training has not finished a model yet; go on with `rela train --resume`, or make one of the "
            f"checkpoints with `rela average {path}`"
        )
    if path.is_dir():
        inside = [child for child in sorted(path.iterdir()) if (child / MODEL_FOLDER / CONFIG_FILE).is_file()]
        found = f"it has no {CONFIG_FILE}" + (f"; there is a model in {inside[0]}" if inside else "")
    else:
        found = "it is a file" if path.exists() else "there is no such folder"
    raise FileNotFoundError(
        f"{path}: expected a model directory with {CONFIG_FILE}, {WEIGHTS_FILE} and tokenizer.json; {found}"
    )
