"""`rela grammar`: the built-in corpus as files, with its gold links and tags."""

from pathlib import Path
from typing import Annotated

import typer

from rela.cli._output import JsonOption, console_for, write_json
from rela.cli._usage import wrong_use


def grammar(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go; made if need be.")],
    counts: Annotated[
        list[str] | None,
        typer.Option(
            "--count",
            metavar="SPLIT=N",
            help="Write so many pairs of train, dev, test or test-compositional; repeat for more. Default: all four.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the training pairs; other splits are always the same.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    json_to: JsonOption = None,
) -> None:
    """Write sentence pairs of the built-in English-German grammar.

    SPLIT.en and SPLIT.de have a sentence a line. Of all splits but train there are also SPLIT.sure and SPLIT.possible,
    the links between words as 0-0 1-2, and SPLIT.tags.en and SPLIT.tags.de, a part of speech for each word.
    """
    from rela.cli._progress import CountProgress
    from rela.text.grammar import DEFAULT_COUNTS, write_corpus

    wanted = _read_counts(counts) if counts else DEFAULT_COUNTS
    console = console_for(json_to, goes_on=True)
    with CountProgress(console, "pairs") as progress, wrong_use("--count"):
        written = write_corpus(out, counts=wanted, seed=seed, overwrite=overwrite, progress=progress.advance)
    if json_to is not None:
        write_json({"folder": str(out), "pairs": written}, json_to)
    console.print(f"{out}: {', '.join(f'{count:,} pairs of {split}' for split, count in written.items())}")


def _read_counts(texts: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        split, count = _read_count(text)
        if split in counts:
            raise typer.BadParameter(f"--count: expected each split once, got {split} twice; give one number for it")
        counts[split] = count
    return counts


def _read_count(text: str) -> tuple[str, int]:
    split, _, number = text.partition("=")
    if not (split and number.isascii() and number.isdigit() and int(number)):
        raise typer.BadParameter(f"--count: expected SPLIT=N, such as train=10000, got {text!r}")
    return split, int(number)
