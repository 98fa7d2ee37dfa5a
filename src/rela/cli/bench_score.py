"""`rela bench score`: how fast a corpus is scored from end to end, and in how much memory."""

from pathlib import Path
from typing import Annotated

import typer

from rela._version import __version__
from rela.cli._benching import finish, points_for, stoppable
from rela.cli._output import JsonOption, check_not_input, console_for
from rela.cli._pairs_input import is_stream

_FLIP_PAIRS = 2000
_ASKED_SHARE = 0.8


@stoppable
def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, or the folder of a finished run.")],
    source: Annotated[Path, typer.Option("--src", metavar="FILE", help="Source sentences, one a line.")],
    target: Annotated[Path, typer.Option("--tgt", metavar="FILE", help="Their translations, as many lines.")],
    workers: Annotated[int | None, typer.Option(min=1, max=1024, help="Processes. Default: one for each core.")] = None,
    json_to: JsonOption = None,
) -> None:
    """Score a corpus as `rela score` does, and say how fast, in how much memory, and what rounding does.

    Seconds count from the first row read to the last one written: looking through, learning quality, scoring, writing.
    Memory is that of all processes together, also while rows are split as `rela filter` does. Rounding: rows of
    attention that are null in batches of one size alone.
    """
    check_not_input(json_to, "--json", {"--src": [source], "--tgt": [target]})
    import os

    from rela.bench import machine
    from rela.bench.others import TOLERATED, watching
    from rela.bench.results import Number, document, measure
    from rela.bench.scoring import count_flips, measure_scoring
    from rela.bench.texts import data_name, read_text_pairs
    from rela.cli._scoring import progress_console, row_progress
    from rela.filtering.corpus import ScoreOptions
    from rela.filtering.scorer import Scorer
    from rela.text.readers import PairSource

    if is_stream(str(source)) or is_stream(str(target)):
        raise typer.BadParameter("--src and --tgt: expected files, which are read more than once, got a pipe")
    scorer = Scorer.load(model)
    first = read_text_pairs(source, target, _FLIP_PAIRS)
    options = ScoreOptions(model=model, source=PairSource.files(source, target), workers=workers or os.cpu_count() or 1)
    with row_progress(progress_console()) as progress, watching() as share:
        found = measure_scoring(options, progress)
    flips = count_flips(scorer, first)
    console = console_for(json_to)
    memory = found.memory
    tenth, half, end = (memory.at(share) / 1e9 for share in (0.1, 0.5, 0.9))
    console.print(
        f"{found.rows:,} pairs in {found.seconds:,.1f} s, {found.rows / found.seconds:,.0f} pairs/s from end to end; "
        f"scoring alone: {found.per_second:,.0f} pairs/s with {found.workers} "
        + ("worker" if found.workers == 1 else "workers")
        + ("" if found.share is None else f", {found.share:.0%} of the speed of bare forced decoding")
    )
    console.print(
        f"memory of all processes: at most {memory.peak / 1e9:.2f} GB; after a tenth of the time {tenth:.2f} GB, "
        f"a half {half:.2f} GB, nine tenths {end:.2f} GB"
    )
    console.print(f"rounding: {flips.flipped:,} of {flips.rows:,} rows are null in batches of one size alone")
    others = share.others / share.capacity if share.capacity else 0.0
    if others > TOLERATED:
        console.print(f"other processes took {others:.0%} of the processors: speeds are those of a busy machine")
    name = scorer.model.config.attention.label
    signature = (
        f"score|data:{data_name(source)}|pairs:{found.rows}|attention:{name}|parameters:{scorer.model.num_parameters()}"
        f"|workers:{found.workers}|v{__version__}"
    )
    console.print(signature, style="dim")
    numbers = {
        "seconds": found.seconds,
        "pairs_per_second_end_to_end": found.rows / found.seconds,
        "pairs_per_second": found.per_second,
        "pairs_per_second_and_worker": found.per_second / found.workers,
        "memory_peak_gb": memory.peak / 1e9,
        "memory_tenth_gb": tenth,
        "memory_half_gb": half,
        "memory_nine_tenths_gb": end,
        "flipped": flips.flipped / max(1, flips.rows),
        "others": others,
    }
    measures = {
        f"score.{name}": measure(signature, None, Number(value=float(f"{value:.5g}")))
        for name, value in numbers.items()
    }
    if found.share is not None:
        number = Number(value=round(found.share, 4), target=_ASKED_SHARE)
        measures["score.share_of_bare"] = measure(signature, None, number)
    entry = {"name": name, "parameters": scorer.model.num_parameters(), "measures": measures}
    facts = {"pairs": found.rows, "malformed": found.malformed, "corpus": data_name(source), "flip_rows": flips.rows}
    finish(json_to, points_for(json_to, resume=False), document("score", machine.describe(), [entry], **facts))
