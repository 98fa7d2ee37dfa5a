"""`rela prepare`: text to a token store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rela.cli._output import JsonOption, console_for, write_json

if TYPE_CHECKING:
    from rela.text.readers import PairSource


def prepare(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to make: a token store.")],
    corpus: Annotated[
        str | None,
        typer.Option(help="A corpus by name, such as grammar or multi30k-en-de; fetched if it is not here."),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPLIT=FILE[,FILE]",
            help="Your own text: two parallel files, or one .tsv or .jsonl file; packed (.gz, .xz, .zst) or not; "
            "- is standard input. Repeat for more splits or more files.",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Source language of --pairs, such as en.")] = None,
    target: Annotated[str | None, typer.Option(help="Target language of --pairs, such as de.")] = None,
    input_format: Annotated[
        Literal["auto", "files", "tsv", "jsonl"], typer.Option("--format", help="Of --pairs; auto goes by the names.")
    ] = "auto",
    columns: Annotated[str, typer.Option(help="Columns of .tsv files, from 1: source,target.")] = "1,2",
    keys: Annotated[
        str | None,
        typer.Option(help="Keys of .jsonl files: source,target; translation.en goes down. Default: the languages."),
    ] = None,
    splits: Annotated[
        str | None, typer.Option(help="Splits of --corpus to prepare, by commas; train is always one. Default: all.")
    ] = None,
    merges: Annotated[int, typer.Option(min=0, help="Merges of the byte-pair encoding.")] = 32_000,
    joint: Annotated[bool, typer.Option("--joint/--separate", help="One vocabulary for both sides, or two.")] = True,
    max_train_pairs: Annotated[
        int | None, typer.Option(min=1, help="Learn the merges from so many pairs only, spread over all.")
    ] = None,
    tokenizer_of: Annotated[
        Path | None, typer.Option(help="Take the vocabulary of this store or model instead of learning one.")
    ] = None,
    max_chars: Annotated[int, typer.Option(min=1, help="Longer lines are left out, and counted.")] = 10_000,
    strict: Annotated[bool, typer.Option("--strict", help="Problems in the text are errors.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is there.")] = False,
    json_to: JsonOption = None,
) -> None:
    """Learn subwords and write a memory-mapped token store, which `rela train` reads.

    Lines with problems (unequal counts, invalid UTF-8, empty or over-long sides) are left out, counted, and reported
    by number. A preparation that was cut off goes on where it stopped when the same command runs again.
    """
    from rela.cli._progress import CountProgress
    from rela.text import prepare as preparing
    from rela.text.store import Tokenizers

    console = console_for(json_to)
    with CountProgress(console, "pairs") as progress:
        if (corpus is None) == (not pairs):
            raise typer.BadParameter("expected either --corpus NAME or --pairs SPLIT=FILE[,FILE]")
        if corpus is not None:
            sources, languages = _from_corpus(corpus, splits, console)
        else:
            if source is None or target is None:
                raise typer.BadParameter("--pairs: expected --source and --target, the two languages, as well")
            languages = (source, target)
            sources = {}
            for entry in pairs or ():
                name, found = _parse_pairs(entry, input_format, columns, keys, languages)
                sources.setdefault(name, []).append(found)
        result = preparing.prepare(
            sources,
            languages,
            out,
            preparing.PrepareOptions(
                merges=merges, joint=joint, max_train_pairs=max_train_pairs, strict=strict, max_chars=max_chars
            ),
            tokenizers=None if tokenizer_of is None else Tokenizers.load(tokenizer_of),
            progress=progress.advance,
            overwrite=overwrite,
        )
    if json_to is not None:
        reports = {name: report.to_json() for name, report in result.reports.items()}
        write_json({"store": str(out), **result.description, "reports": reports}, json_to)
    _show(console, out, result)


def _show(console: Any, out: Path, result: Any) -> None:
    vocabulary = result.description["vocabulary"]
    sizes = (
        f"{vocabulary['source']:,}"
        if result.description["joint"]
        else f"{vocabulary['source']:,} and {vocabulary['target']:,}"
    )
    console.print(f"{out}: {sizes} pieces in the vocabulary")
    for name, report in result.reports.items():
        entry = result.description["splits"][name]
        console.print(
            f"  {name}: {entry['pairs']:,} pairs, {entry['source_tokens']:,} source and "
            f"{entry['target_tokens']:,} target pieces"
        )
        if report.num_left_out:
            for line in report.lines():
                console.print(f"    {line}")


def _from_corpus(name: str, splits: str | None, console: Any) -> "tuple[dict[str, list[PairSource]], tuple[str, str]]":
    from rela.cli._progress import CountProgress
    from rela.text.corpora import fetch

    wanted = None if splits is None else list(dict.fromkeys(["train", *splits.split(",")]))
    with CountProgress(console, "bytes") as progress:
        local = fetch(name, splits=wanted, progress=progress.reach)
    for note in local.notes:
        console.print(f"note: {note}")
    return local.splits, (local.source_language, local.target_language)


def _parse_pairs(
    entry: str, input_format: str, columns: str, keys: str | None, languages: tuple[str, str]
) -> "tuple[str, PairSource]":
    from rela.text.readers import PairSource

    split, equals, files = entry.partition("=")
    paths = files.split(",")
    if not equals or not split or not all(paths) or len(paths) > 2:
        raise typer.BadParameter(f"--pairs: expected SPLIT=FILE or SPLIT=FILE,FILE, got {entry!r}")
    if not split.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise typer.BadParameter(f"--pairs: expected a split's name of letters, digits, - and _, got {split!r}")
    if len(paths) == 2:
        if input_format not in ("auto", "files"):
            raise typer.BadParameter(f"--pairs: expected one file for the format {input_format}, got {files!r}")
        return split, PairSource.files(*paths)
    kind = input_format if input_format != "auto" else _format_of(paths[0])
    if kind == "tsv":
        first, _, second = columns.partition(",")
        if not (first.isdigit() and second.isdigit()):
            raise typer.BadParameter(f"--columns: expected two numbers such as 1,2, got {columns!r}")
        return split, PairSource.tsv(paths[0], columns=(int(first), int(second)))
    if kind == "jsonl":
        first, _, second = (keys or ",".join(languages)).partition(",")
        if not (first and second):
            raise typer.BadParameter(f"--keys: expected two keys such as en,de, got {keys!r}")
        return split, PairSource.jsonl(paths[0], keys=(first, second))
    raise typer.BadParameter(f"--pairs: expected two files, or one .tsv or .jsonl file (or --format), got {files!r}")


def _format_of(path: str) -> str | None:
    name = path
    for packed in (".gz", ".xz", ".zst"):
        name = name.removesuffix(packed)
    return {".tsv": "tsv", ".jsonl": "jsonl"}.get(Path(name).suffix)
