"""`rela flops`: operations and parameters of every attention."""

from typing import Annotated, Any

import typer

from rela.cli._output import JsonOption, console_for, write_json


def flops(
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 8,
    dim: Annotated[int, typer.Option(min=1, help="Model size, all heads together.")] = 512,
    length: Annotated[int, typer.Option(min=1, help="Sentence length in tokens.")] = 100,
    layers: Annotated[int, typer.Option(min=1, help="Encoder layers, and as many decoder layers.")] = 6,
    ffn_dim: Annotated[int, typer.Option(min=1, help="Size of the feed-forward layers.")] = 2048,
    vocabulary: Annotated[int, typer.Option(min=0, help="Embedding rows, source and target together.")] = 55_000,
    json_to: JsonOption = None,
) -> None:
    """Count the operations and parameters of every attention.

    "map and norm" follows the paper's formulas for softmax (3HT^2 - HT) and rela-g (HT^2 + 10Td + T), and the same
    way of counting for the others. "matrix products" is torch's own flop counter on the whole sublayer. "parameters"
    is an encoder-decoder Transformer of the given size with the attention everywhere.
    """
    from rela.attention import cost
    from rela.attention.spec import PRESETS

    if dim % heads != 0:
        raise typer.BadParameter(f"--dim: expected a multiple of --heads {heads}, got {dim}")
    operations = {n: cost.map_and_norm_operations(s, heads, dim, length) for n, s in PRESETS.items()}
    products = {n: cost.counted_operations(s, heads, dim, length) for n, s in PRESETS.items()}
    extra = {n: cost.extra_parameters(s, heads, dim) for n, s in PRESETS.items()}
    parameters = {
        n: cost.transformer_parameters(s, heads, dim, layers, ffn_dim, vocabulary) for n, s in PRESETS.items()
    }
    size = {"heads": heads, "dim": dim, "length": length}
    model = {"layers": layers, "ffn_dim": ffn_dim, "vocabulary": vocabulary}
    if json_to is not None:
        result: dict[str, Any] = dict(operations)
        result["matrix_products"] = products
        result["extra_parameters"] = extra
        result["parameters"] = parameters
        result["size"] = size | model
        result["signature"] = f"operations:map+norm|H:{heads}|d:{dim}|T:{length}|counting:paper-table-4"
        write_json(result, json_to)
    console = console_for(json_to)
    if console.quiet:
        return
    from rich.table import Table

    table = Table(
        title=f"one sublayer, H={heads}, d={dim}, T={length}; model: {layers}+{layers} layers, "
        f"FFN {ffn_dim}, {vocabulary:,} embeddings"
    )
    table.add_column("attention", no_wrap=True)
    for column in ("map and\nnorm", "matrix\nproducts", "extra\nparams", "params"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in PRESETS:
        counts = (operations[name], products[name], extra[name], parameters[name])
        table.add_row(name, *(f"{count:,}" for count in counts))
    console.print(table)
