"""Tables of what weights are like: sparsity, null rate, diversity, shuffled targets, tags, ablation."""

from __future__ import annotations

from collections.abc import Callable

from rela.report.choice import AbsentError, entries_of, has_nulls, has_numbers, models_of, with_measure
from rela.report.results import KINDS, Entry, Results, specialists
from rela.report.tables import paper as papers
from rela.report.tables.rows import Shown, count_layers, is_empty, layer_columns, share, text_row
from rela.report.tables.table import NOTHING, Cell, Column, Row, Table, mark_best, number_cell

_ANALYSED = "`rela analyze` measures it"
_MOST_HEADS = 4


def make_sparsity(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has curves only)
    """The share of weights that are exactly zero, by kind and layer, between pieces and between words."""
    whats = {"pieces": "{}.sparsity.layer", "words": "{}.sparsity.word.layer"}
    return _by_layer(results, "sparsity", "Weights that are exactly 0, in percent", whats)


def make_null(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has curves only)
    """How often heads attend to nothing, by kind and layer; the variance over heads; and the layer attention's."""
    whats = {
        "pieces": "{}.null.layer",
        "words": "{}.null.word.layer",
        "variance over heads": "{}.null.variance",
        "layer attention": "{}.null.layer_attention",
    }
    return _by_layer(results, "null", "Null rate: queries whose weights are all 0, in percent", whats, only=has_nulls)


def _by_layer(
    results: Results,
    name: str,
    title: str,
    whats: dict[str, str],
    only: Callable[[Entry], bool] = lambda _: True,
) -> Table:
    measured = with_measure(results, f"cross.{name}.layer", _ANALYSED)
    entries = [entry for entry in measured if only(entry)]
    if not entries:
        raise AbsentError(f"all are 0, of {', '.join(entry.name for entry in measured)}")
    shown = Shown(results)
    count = count_layers(entries, [pattern.format(kind) for kind in KINDS for pattern in whats.values()])
    rows: list[Row] = []
    for kind in KINDS:
        first = True
        for entry in entries:
            for what, pattern in whats.items():
                is_rate = "variance" not in what
                cells = shown.layers(entry, pattern.format(kind), count, digits=1 if is_rate else 3, percent=is_rate)
                row = text_row([kind, entry.name, what], cells, rule=first)
                if not is_empty(row):
                    rows.append(row)
                    first = False
    columns = (Column("attention", is_text=True), Column("model", is_text=True), Column("of", is_text=True))
    notes = ["The variance is of rates between 0 and 1."] if "variance over heads" in whats else []
    if zeros := [entry.name for entry in measured if entry not in entries]:
        notes.append(f"All are 0 of {', '.join(zeros)}.")
    return Table(name, title, (*columns, *layer_columns(count)), tuple(rows), tuple(notes), tuple(shown.signatures))


def make_diversity(results: Results, paper: bool = False) -> Table:
    """The paper's table 6: how much heads differ, by kind; for maps without a distribution, by tau."""
    entries = with_measure(results, "cross.diversity", _ANALYSED)
    shown = Shown(results)
    rows: list[Row] = []
    for entry in entries:
        taus = entry.measures.get("cross.diversity.tau")
        if taus is None:
            cells = [shown.number(entry, f"{kind}.diversity.mean") for kind in KINDS]
            cells += [shown.mean(entry, f"{kind}.diversity.word", digits=2, percent=False) for kind in KINDS]
            rows.append(text_row([entry.name], cells, contest="ours"))
            continue
        for place, tau in enumerate(taus.labels["tau"]):
            cells = [
                shown.mean(entry, f"{kind}.diversity.tau{level}", place=place, digits=2, percent=False)
                for level in ("", ".word")
                for kind in KINDS
            ]
            rows.append(text_row([f"{entry.name}, τ = {tau}"], cells, rule=place == 0, contest="ours"))
    notes: list[str] = []
    if paper:
        for place, (name, values) in enumerate(papers.DIVERSITY.items()):
            cells = [*(number_cell(value, digits=2) for value in values), *[Cell(NOTHING)] * 3]
            rows.append(text_row([name + papers.MARK], cells, rule=place == 0))
        notes.append(papers.NOTE.format(6, ""))
    heads = [Column(kind, f"between {level}") for level in ("pieces", "words") for kind in KINDS]
    title = "Head diversity (generalised Jensen-Shannon divergence in nats), mean over layers"
    columns = (Column("model", is_text=True), *heads)
    marked = mark_best(rows, range(1, 7))
    return Table("diversity", title, columns, marked, tuple(notes), tuple(shown.signatures))


def make_hallucination(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has curves only)
    """The cross null rate of pairs as they are and with shuffled targets, and how well it tells them apart."""
    entries = with_measure(results, "hallucinated.null.shuffled", _ANALYSED)
    shown = Shown(results)
    count = count_layers(entries, ["hallucinated.null.shuffled"])
    rows: list[Row] = []
    for entry in entries:
        rows += [
            text_row([entry.name, name], shown.layers(entry, f"hallucinated.null.{name}", count), rule=name == "real")
            for name in ("real", "shuffled")
        ]
        cells = shown.layers(entry, "hallucinated.auc", count, digits=3, percent=False)[:-1]
        cells.append(shown.number(entry, "hallucinated.auc.mean", digits=3))
        rows.append(text_row([entry.name, "AUC"], cells, contest="auc"))
    columns = (Column("model", is_text=True), Column("targets", is_text=True), *layer_columns(count))
    marked = mark_best(rows, range(2, 3 + count))
    title = "Cross null rate in percent, of pairs as they are and with targets shuffled"
    notes = ("AUC: how well a pair's null rate tells the two apart, 0.5 is chance; last, by the mean over layers.",)
    return Table("hallucination", title, columns, marked, notes, tuple(shown.signatures))


def make_tags(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper tells of two heads in its text)
    """The null rate of the most specialised heads, by the tag of the word just produced."""
    shown = Shown(results)
    chosen: list[tuple[Entry, str, int, int]] = []
    for group in entries_of(results):
        for model in models_of(results, group)[:1]:
            chosen += _specialised(model)
    if not chosen:
        raise AbsentError(
            "no null rate by tag in the results: it takes tags, and heads that attend to nothing at times"
        )
    tags: dict[str, float] = {}
    for model, kind, _, _ in chosen:
        labels = model.measures[f"{kind}.null.tag"].labels["tag"]
        counts = shown.find(model, f"{kind}.null.tag.count")
        found = [float("nan")] * len(labels) if counts is None else counts.value.tolist()
        for tag, number in zip(labels, found, strict=True):
            tags.setdefault(tag, number)
    rows = [text_row(["all", ""], [_head_rate(shown, *head) for head in chosen])]
    for place, (tag, number) in enumerate(tags.items()):
        cells = [_tag_rate(shown, *head, tag) for head in chosen]
        rows.append(text_row([tag, f"{number:,.0f}" if number == number else NOTHING], cells, rule=place == 0))
    heads = [Column(f"{layer}.{head}", f"{model.name}, {kind}") for model, kind, layer, head in chosen]
    columns = (Column("after", is_text=True), Column("rows"), *heads)
    title = "Null rate in percent of the most specialised heads (layer.head), by the tag of the word just produced"
    notes = ("One model of each group: heads of other seeds are other heads.",) if _has_seeds(results) else ()
    return Table("tags", title, columns, tuple(rows), notes, tuple(shown.signatures))


def _specialised(model: Entry) -> list[tuple[Entry, str, int, int]]:
    """The heads that findings call specialists; without such findings, those whose rate differs most between tags."""
    if not has_nulls(model):
        return []
    found: dict[tuple[str, int, int], None] = {}
    for finding in specialists(model):
        if has_numbers(model.measures.get(f"{finding['kind']}.null.tag")):
            found.setdefault((finding["kind"], finding["layer"], finding["head"]))
    measure = model.measures.get("cross.null.tag")
    if not found and measure is not None and has_numbers(measure):
        rates = measure.value
        ranges = {
            (layer, head): rates[:, layer, head][rates[:, layer, head] == rates[:, layer, head]]
            for layer in range(rates.shape[1])
            for head in range(rates.shape[2])
        }
        widest = sorted(ranges, key=lambda place: -(ranges[place].max(initial=0) - ranges[place].min(initial=1)))
        found = {("cross", layer + 1, head): None for layer, head in widest}
    return [(model, *head) for head in list(found)[:_MOST_HEADS]]


def _head_rate(shown: Shown, model: Entry, kind: str, layer: int, head: int) -> Cell:
    measure = shown.find(model, f"{kind}.null")
    return Cell(NOTHING) if measure is None else number_cell(share(measure.value[layer - 1, head]), percent=True)


def _tag_rate(shown: Shown, model: Entry, kind: str, layer: int, head: int, tag: str) -> Cell:
    measure = shown.find(model, f"{kind}.null.tag")
    if measure is None or tag not in measure.labels["tag"]:
        return Cell(NOTHING)
    return number_cell(share(measure.value[measure.labels["tag"].index(tag), layer - 1, head]), percent=True)


def _has_seeds(results: Results) -> bool:
    return any(len(models_of(results, group)) > 1 for group in entries_of(results))
