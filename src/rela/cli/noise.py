"""`rela noise`: good pairs in, a crawl with known noise out."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from rela._warn import warn
from rela.cli._output import STDOUT, JsonOption, check_destination, check_not_input, console_for, write_json
from rela.cli._outputs import check_packing


def noise(
    source: Annotated[Path, typer.Option("--src", metavar="FILE", help="Good pairs: source sentences, one a line.")],
    target: Annotated[Path, typer.Option("--tgt", metavar="FILE", help="Their translations, as many lines.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The pairs as TSV, some of them spoiled.")],
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For each line how it was spoiled, or good.")
    ] = None,
    share: Annotated[float, typer.Option(min=0, max=1, help="How many are spoiled.")] = 0.3,
    kinds: Annotated[str | None, typer.Option(metavar="A,B", help="Kinds of noise. Default: all.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Of the target: en, de, fr or cs have words for numbers that can be changed.")
    ] = None,
    foreign: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sentences of a third language, for the wrong language. Default: --src."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=2, help="Only so many pairs, the first.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides which pairs are spoiled, and how.")] = 1,
    json_to: JsonOption = None,
) -> None:
    """Spoil a share of good pairs on purpose, to see what a filter finds.

    Kinds: shuffled, wrong-language, insertion, appended, omission, word-salad, copied, number, misordered, misspelling.
    The same seed gives the same noise.
    """
    from rela.filtering.noises import NOISES, NUMBER_WORDS, Material, mix_noise

    files: dict[str, list[Path | str]] = {
        "--src": [source],
        "--tgt": [target],
        "--foreign": [] if foreign is None else [foreign],
    }
    if STDOUT in (str(output), str(labels)):
        raise typer.BadParameter("--output and --labels: expected files, got standard output; name a file")
    for option, path in (("--output", output), ("--labels", labels), ("--json", json_to)):
        check_not_input(path, option, files)
        check_packing(None if path is None else Path(path), option)
        check_destination(None if path is None else str(path))
        if path is not None:
            files[option] = [path]
    chosen = list(NOISES) if kinds is None else [kind.strip() for kind in kinds.split(",")]
    if unknown := [kind for kind in chosen if kind not in NOISES]:
        raise typer.BadParameter(f"--kinds: expected some of {', '.join(NOISES)}, got {unknown[0]!r}")
    if len(chosen) != len(set(chosen)):
        raise typer.BadParameter(f"--kinds: expected each kind once, got {kinds!r}")
    if language is not None and language not in NUMBER_WORDS and "number" in chosen:
        known = ", ".join(NUMBER_WORDS)
        warn(f"--language: no words for numbers are known in {language!r}, so only digits are changed; known: {known}")
    pairs, lines = _read(source, target, count), None
    if foreign is not None:
        lines = _read_foreign(foreign)
    mixed, how = mix_noise(Material(pairs, language, lines), share, chosen, seed)
    _write(output, (f"{left}\t{right}\n" for left, right in mixed))
    if labels is not None:
        _write(labels, (f"{kind or 'good'}\n" for kind in how))
    counts = Counter(kind or "good" for kind in how)
    console = console_for(json_to)
    console.print(f"{len(mixed):,} pairs, {len(mixed) - counts['good']:,} of them spoiled: {output}")
    for kind in chosen:
        console.print(f"  {kind}: {counts[kind]:,}")
    if json_to is not None:
        write_json({"pairs": len(mixed), "counts": dict(counts), "seed": seed, "share": share}, json_to)


def _write(path: Path, lines: Iterable[str]) -> None:
    from rela.filtering.writing import new_packed

    with new_packed(path) as write:
        for line in lines:
            write(line.encode())


def _read_foreign(path: Path) -> list[str]:
    """The sentences that can stand in a TSV; what is left out is said."""
    from rela.text.problems import ReadReport
    from rela.text.readers import read_lines

    report = ReadReport()
    lines = list(read_lines(path, report=report))
    kept = [line.text for line in lines if line.problem is None and line.text.strip() and "\t" not in line.text]
    if not kept:
        raise ValueError(f"{path}: expected sentences of a third language, got none")
    if len(kept) < len(lines):
        warn(f"{path}: {len(lines) - len(kept):,} of {len(lines):,} lines are empty, too long, no text, or have tabs")
    return kept


def _read(source: Path, target: Path, count: int | None) -> list[tuple[str, str]]:
    """The pairs that can stand in a TSV; what is left out is said."""
    from itertools import islice

    from rela.text.problems import ReadReport
    from rela.text.readers import PairSource, read_pairs

    report = ReadReport()
    read = read_pairs(PairSource.files(source, target), report=report)
    found = [(pair.source, pair.target) for pair in islice(read, count)]
    kept = [pair for pair in found if "\t" not in pair[0] + pair[1]]
    left_out = report.counts | ({"tab": len(found) - len(kept)} if len(kept) < len(found) else {})
    counts = ", ".join(f"{name} {number:,}" for name, number in sorted(left_out.items()))
    if not kept:
        why = f"; all are left out: {counts}" if counts else ""
        raise ValueError(f"{source} and {target}: expected at least one sentence pair, got none{why}")
    if counts:
        warn(f"{source} and {target}: pairs that are left out: {counts}")
    return kept
