"""Tables of the models themselves: what they are, and what their heads are worth."""

from __future__ import annotations

from rela.report.choice import AbsentError, entries_of, mean_without_nan, of_heads, over_models
from rela.report.results import KINDS, Entry, Results, Values
from rela.report.tables.rows import Shown, text_row
from rela.report.tables.table import NOTHING, Cell, Column, Row, Table, mark_best, number_cell


def make_models(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has other models)
    """What was analysed."""
    if not results.models:
        raise AbsentError("no models in the results")
    shown = Shown(results)
    rows: list[Row] = []
    for model in results.models:
        info = model.info
        attentions = dict.fromkeys(info.get("attentions", {}).values())
        layers = info.get("layers", {})
        texts = [model.name, " / ".join(attentions) or NOTHING, str(info.get("direction") or NOTHING)]
        size = f"{layers['encoder']}+{layers['decoder']} \u00d7 {info.get('heads', NOTHING)}" if layers else NOTHING
        parameters = info.get("parameters")
        cells = [
            Cell(size),
            Cell(NOTHING if parameters is None else f"{parameters:,}"),
            shown.number(model, "loss", digits=3),
        ]
        rows.append(text_row(texts, cells, contest="all"))
    texts = (Column(name, is_text=True) for name in ("model", "attention", "direction"))
    columns = (*texts, Column("layers \u00d7 heads"), Column("parameters"), Column("loss"))
    marked = mark_best(rows, [5], least=True)
    return Table(
        "models",
        "The models, and their loss in nats for each target piece",
        columns,
        marked,
        (),
        tuple(shown.signatures),
    )


def make_ablation(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has none)
    """What silencing heads costs: the mean over a layer's heads and the greatest, and where heads were null or not."""
    shown = Shown(results)
    rows: list[Row] = []
    for entry in entries_of(results):
        for kind in KINDS:
            num_layers = max((len(found.value) for found in of_heads(results, entry, f"{kind}.ablation")), default=0)
            for layer in range(num_layers):
                cells = [
                    _cell(results, shown, entry, f"{kind}.ablation", layer, greatest=False),
                    _cell(results, shown, entry, f"{kind}.ablation", layer, greatest=True),
                    _cell(results, shown, entry, f"{kind}.ablation.null", layer, greatest=False),
                    _cell(results, shown, entry, f"{kind}.ablation.active", layer, greatest=False),
                ]
                rows.append(text_row([entry.name, kind, str(layer + 1)], cells, rule=layer == 0))
    if not rows:
        raise AbsentError("no ablation in the results: no head was silenced")
    texts = (Column(name, is_text=True) for name in ("model", "attention", "layer"))
    heads = (Column("mean"), Column("greatest"), Column("mean where null"), Column("mean where not"))
    title = "Change in loss (nats) when one head is silenced: over the heads of a layer"
    return Table("ablation", title, (*texts, *heads), tuple(rows), (), tuple(shown.signatures))


def _cell(results: Results, shown: Shown, entry: Entry, name: str, layer: int, *, greatest: bool) -> Cell:
    def of_model(model: Entry) -> Values | None:
        measure = shown.find(model, name)
        if measure is None:
            return None
        heads = measure.value[layer]
        return heads[heads == heads].max(initial=float("-inf")) if greatest else mean_without_nan(heads)

    found = over_models(results, entry, of_model)
    if found is None:
        return Cell(NOTHING)
    return number_cell(float(found[0]), None if found[1] is None else float(found[1]), digits=4)
