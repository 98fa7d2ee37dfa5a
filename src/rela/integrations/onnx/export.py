"""A model directory as ONNX: two graphs, the tokenizer, and a program that translates without torch."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import shutil
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from rela._files import digest, new_folder, write_text
from rela._version import __version__
from rela.decoding.translator import Translator
from rela.integrations.onnx.graphs import Graph, decoder_graph, encoder_graph
from rela.model.directory import LoadedModel, find_model_folder, load_model

_PACKAGES: Final = ("onnx", "onnxruntime", "onnxscript")
_RUNNER: Final = Path(__file__).with_name("runner.py")
PROGRAM_FILE: Final = "translate.py"
_EXTRA: Final = 'pip install "rela-attention[onnx]"'


def export_onnx(model: Path, out: Path, *, int8: bool = False) -> dict[str, Any]:
    """Write a model directory as ONNX into a new folder, whole or not at all; returns what its ``config.json`` says.

    ``int8`` rounds the weights of matrix products to 8 bits, a quarter of their size; embeddings stay as they are, and
    translations may differ.
    """
    check_packages()
    out = out.resolve()  # a link stays one
    _check_new(out)
    from rela.integrations.onnx.runner import CONFIG_FILE, DECODER_FILE, ENCODER_FILE, FORMAT

    loaded = load_model(find_model_folder(model))
    network, tokenizers, languages = loaded
    network = network.float().eval()
    config = network.config
    sides = list(tokenizers.files())
    description: dict[str, Any] = {
        "format": FORMAT,
        "rela_version": __version__,
        "source_language": languages.source,
        "target_language": languages.target,
        "attention": config.attention.label,
        "precision": "int8" if int8 else "fp32",
        "layers": config.decoder_layers,
        "heads": config.num_heads,
        "head_dim": config.dim // config.num_heads,
        "tokenizers": {"source": sides[0], "target": sides[-1]},
    }
    with new_folder(out) as partial:
        for name, graph in (
            (ENCODER_FILE, encoder_graph(network)),
            (DECODER_FILE, decoder_graph(network, own_projection=int8)),
        ):
            _write_graph(graph, partial / name, int8=int8)
        for name, content in tokenizers.files().items():
            write_text(partial / name, content)
        description["files"] = {path.name: digest(path) for path in sorted(partial.iterdir())}
        shutil.copyfile(_RUNNER, partial / PROGRAM_FILE)
        write_text(partial / CONFIG_FILE, json.dumps(description, indent=2, ensure_ascii=False) + "\n")
        if not int8:
            _check_equal(loaded, partial)
    return description


def check_packages() -> None:
    """An error that says what to install, if something is missing."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(f"expected the package {missing[0]} to export with, got none; {_EXTRA}")


def _check_new(out: Path) -> None:
    """Only what `rela export` wrote is replaced."""
    if out == Path.cwd():
        raise FileExistsError(f"{out}: expected a folder beside or below this one, got this one; name another")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    from rela.integrations.onnx.runner import CONFIG_FILE, FORMAT

    written: set[str] | None = None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        config = json.loads((out / CONFIG_FILE).read_text(encoding="utf-8"))
        if config.get("format") == FORMAT:
            written = {*config.get("files", ()), CONFIG_FILE, PROGRAM_FILE, "__pycache__"}
    if written is None:
        raise FileExistsError(
            f"{out}: expected a new folder, or an export to replace, got something else; name another"
        )
    if others := sorted(path.name for path in out.iterdir() if path.name not in written):
        raise FileExistsError(
            f"{out}: expected nothing but an export, which would be replaced, got {others[0]} beside it; move it away, "
            "or name another folder"
        )


def _write_graph(graph: Graph, path: Path, *, int8: bool) -> None:
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            graph.module,
            graph.example,
            dynamo=True,
            dynamic_shapes=graph.open_sizes,
            input_names=list(graph.open_sizes),
            output_names=list(graph.outputs),
            verbose=False,
        )
        assert program is not None
        if not int8:
            program.save(path)
            return
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.shape_inference import quant_pre_process

        whole = path.with_suffix(".whole.onnx")
        program.save(whole)
        quant_pre_process(whole, whole, skip_symbolic_shape=True)  # makes constants of slices of a matrix
        quantize_dynamic(
            whole,
            path,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,  # 7 bits: processors without VNNI cut off sums of two products of 8 bits
            op_types_to_quantize=["MatMul"],
        )
        whole.unlink()


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """The exporter tells of its own inside: packages that it could use, constants that it does not fold."""
    was_disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(was_disabled)


def _check_equal(loaded: LoadedModel, folder: Path) -> None:
    """What was written must say what the model says."""
    from rela.integrations.onnx.runner import OnnxTranslator

    texts = [loaded.tokenizers.source.decode(list(range(10, 10 + length))) for length in (3, 9, 6)]
    texts = [text.replace("\n", " ") for text in texts if text.strip()]
    expected = Translator(*loaded).translate(texts, beam=2, max_length=12)
    found = OnnxTranslator.load(folder, threads=1).translate(texts, beam=2, max_length=12)
    for ours, theirs in zip(expected, found, strict=True):
        if not np.isclose(ours.log_probability, theirs.log_probability, rtol=1e-3, atol=1e-3):
            raise ValueError(
                f"expected the exported model to give the log-probability {ours.log_probability:.4f}, got "
                f"{theirs.log_probability:.4f}; this is a defect, please report it with the model's config.json"
            )
