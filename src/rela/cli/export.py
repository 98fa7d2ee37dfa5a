"""`rela export`: a model in ONNX, for programs without torch."""

from pathlib import Path
from typing import Annotated

import typer

from rela.cli._output import JsonOption, console_for, write_json


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, or the folder of a run.")],
    onnx: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    int8: Annotated[
        bool,
        typer.Option(
            "--int8", help="Round weights of matrix products to 8 bits: smaller, mostly faster, not the same."
        ),
    ] = False,
    json_to: JsonOption = None,
) -> None:
    """Write a model as ONNX: its encoder, a step of its decoder with a cache, and a program that translates with them.

    The program, DIR/translate.py, needs onnxruntime, tokenizers and numpy, and neither torch nor rela.
    """
    from rela.integrations.onnx.export import PROGRAM_FILE, export_onnx

    description = export_onnx(model, onnx, int8=int8)
    sizes = {path.name: path.stat().st_size for path in sorted(onnx.iterdir())}
    if json_to is not None:
        write_json({**description, "folder": str(onnx), "bytes": sizes}, json_to)
    console = console_for(json_to)
    total = sum(sizes.values()) / 1e6
    console.print(f"{onnx}: {description['attention']}, {description['precision']}, {total:,.1f} MB")
    console.print(f"translate: python {onnx / PROGRAM_FILE} < TEXT")
