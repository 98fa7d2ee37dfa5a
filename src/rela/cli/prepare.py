"""`rela prepare`: text to a token store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from rela._files import ending_of, naming
from rela._streams import STANDARD_OUTPUT, check_standard_output, has_standard_output
from rela._warn import warn
from rela.cli._output import STDOUT, JsonOption, check_not_input, console_for, write_json
from rela.cli._usage import told_when_stopped, wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.text.prepare import Prepared
    from rela.text.readers import PairSource
    from rela.text.store import Tokenizers


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
            "- is standard input, TSV if it is all. Repeat for more splits or more files.",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help="Source language of --pairs, such as en.")] = None,
    target: Annotated[str | None, typer.Option(help="Target language of --pairs, such as de.")] = None,
    input_format: Annotated[
        Literal["auto", "files", "tsv", "jsonl"], typer.Option("--format", help="Of --pairs; auto goes by the names.")
    ] = "auto",
    columns: Annotated[
        str | None, typer.Option(help="Columns of .tsv files, from 1: source,target. Default: 1,2.")
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(help="Keys of .jsonl files: source,target; translation.en goes down. Default: the languages."),
    ] = None,
    splits: Annotated[
        str | None,
        typer.Option(help="Splits of --corpus, by commas; train is one, to learn from. Default: all."),
    ] = None,
    merges: Annotated[
        int | None, typer.Option(min=0, help="Merges of the byte-pair encoding. Default: 32,000.")
    ] = None,
    joint: Annotated[
        bool | None,
        typer.Option("--joint/--separate", help="One vocabulary for both sides, or two. Default: joint."),
    ] = None,
    max_train_pairs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Learn the merges from so many pairs at most, spread over all. Default: what 0.6 GB of memory allow.",
        ),
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
    from rela.text.unfinished import unfinished_folder

    if json_to == STDOUT:
        check_standard_output()
    console = console_for(json_to, goes_on=True)
    console.quiet |= not has_standard_output()  # the store is what counts
    learning = _given(merges=merges, joint=joint, max_train_pairs=max_train_pairs)
    if tokenizer_of is not None:
        _refuse("--tokenizer-of, which learns nothing", learning)
    if (corpus is None) == (not pairs):
        raise typer.BadParameter("expected either --corpus NAME or --pairs SPLIT=FILE[,FILE]")
    options = preparing.PrepareOptions(strict=strict, max_chars=max_chars, **learning)
    if corpus is not None:
        form = None if input_format == "auto" else input_format
        _refuse("--corpus", _given(source=source, target=target, format=form, columns=columns, keys=keys))
        wanted = _wanted_splits(corpus, splits, None if tokenizer_of is not None else options.train_split)
        tokenizers = _check_places(out, tokenizer_of, overwrite=overwrite)  # before anything is fetched in vain
        with told_when_stopped(lambda: "what was fetched stays, and the same command goes on from there"):
            found = _from_corpus(corpus, wanted, console)
    else:
        _refuse("--pairs", _given(splits=splits))
        if not source or not target:
            raise typer.BadParameter("--pairs: expected --source and --target, the two languages, as well")
        if source == target:
            warn(f"--source and --target are both {source}; is the text not to be translated into another language?")
        found = _from_pairs(pairs or [], (source, target), input_format, columns, keys)
        check_not_input(
            json_to, "--json", {"--pairs": [p for some in found.splits.values() for s in some for p in s.paths]}
        )
        with wrong_use("--pairs"):
            preparing.check_splits(found.splits, None if tokenizer_of is not None else options.train_split)
        tokenizers = _check_places(out, tokenizer_of, overwrite=overwrite)
    folder = unfinished_folder(out)
    with told_when_stopped(lambda: _how_to_go_on(folder)), CountProgress(console, "pairs") as progress:
        result = preparing.prepare(
            found.splits,
            found.languages,
            out,
            options,
            tokenizers=tokenizers,
            progress=progress.advance,
            overwrite=overwrite,
        )
    if json_to is not None:
        reports = {name: report.to_json() for name, report in result.reports.items()}
        facts = {"schema": "rela-prepare/1", "store": str(out), "notes": found.notes}
        write_json({**facts, **result.description, "reports": reports}, json_to)
    with naming(STANDARD_OUTPUT):
        _show(console, out, result)


def _how_to_go_on(folder: Path) -> str:
    if folder.exists():
        return f"{folder} has what was done, and the same command goes on from there"
    return "nothing is left behind, and the same command begins anew"


class _Found(NamedTuple):
    splits: "dict[str, list[PairSource]]"
    languages: tuple[str, str]
    notes: tuple[str, ...] = ()


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(beside: str, given: dict[str, Any]) -> None:
    """An option that would be ignored is wrong use."""
    for name in given:
        option = "--joint or --separate" if name == "joint" else f"--{name.replace('_', '-')}"
        raise typer.BadParameter(f"{option}: expected without {beside}, got both")


def _show(console: "Console", out: Path, result: "Prepared") -> None:
    vocabulary = result.description["vocabulary"]
    sizes = (
        f"{vocabulary['source']:,}"
        if result.description["joint"]
        else f"{vocabulary['source']:,} and {vocabulary['target']:,}"
    )
    console.print(f"{out}: {sizes} pieces in the vocabulary{_learned(result.description)}")
    for name, report in result.reports.items():
        entry = result.description["splits"][name]
        console.print(
            f"  {name}: {entry['pairs']:,} pairs, {entry['source_tokens']:,} source and "
            f"{entry['target_tokens']:,} target pieces",
        )
        if report.num_left_out:
            for line in report.lines():
                console.print(f"    {line}")


def _learned(description: "dict[str, Any]") -> str:
    counts: dict[str, int] | None = description["learned_from_pairs"]
    return (
        ""
        if counts is None
        else f", learned from {' and '.join(f'{n:,}' for n in dict.fromkeys(counts.values()))} pairs"
    )


def _check_places(out: Path, tokenizer_of: Path | None, *, overwrite: bool) -> "Tokenizers | None":
    """Refuse an OUT that is there, and a vocabulary that is none; gives the vocabulary."""
    from rela.text.prepare import check_out
    from rela.text.store import Tokenizers

    check_out(out, overwrite=overwrite)
    return None if tokenizer_of is None else Tokenizers.load(tokenizer_of)


def _wanted_splits(name: str, splits: str | None, train_split: str | None) -> list[str]:
    """The splits of a corpus that are asked for, and the one to learn from, if there is to be one."""
    from rela.text.registry import find_corpus

    with wrong_use("--corpus"):
        known = list(find_corpus(name).splits)
    if splits is None:
        return known
    learned_from = [] if train_split is None else [train_split]
    wanted = list(dict.fromkeys([*learned_from, *map(str.strip, splits.split(","))]))
    if unknown := [split for split in wanted if split not in known]:
        raise typer.BadParameter(f"--splits: expected some of {', '.join(known)}, got {', '.join(map(repr, unknown))}")
    return wanted


def _from_corpus(name: str, wanted: list[str], console: "Console") -> _Found:
    from rela.cli._progress import CountProgress
    from rela.text.corpora import fetch

    with CountProgress(console, "bytes") as progress:
        local = fetch(name, splits=wanted, progress=progress.reach)
    for note in local.notes:
        console.print(f"note: {note}")
    return _Found(local.splits, (local.source_language, local.target_language), local.notes)


def _from_pairs(
    pairs: list[str], languages: tuple[str, str], input_format: str, columns: str | None, keys: str | None
) -> _Found:
    splits: dict[str, list[PairSource]] = {}
    for entry in pairs:
        name, found = _parse_pairs(entry, input_format, columns or "1,2", keys or ",".join(languages))
        _check_sides(found, languages)
        splits.setdefault(name, []).append(found)
    kinds = {source.kind for sources in splits.values() for source in sources}
    for option, value, kind in (("--columns", columns, "tsv"), ("--keys", keys, "jsonl")):
        if value is not None and kind not in kinds:
            raise typer.BadParameter(f"{option}: expected with a .{kind} file, got {value!r} and none")
    return _Found(splits, languages)


def _check_sides(source: "PairSource", languages: tuple[str, str]) -> None:
    """Refuse a file that is both sides, or files whose names say that they are the wrong way round.

    Nothing later would notice.
    """
    paths = [Path(path) for path in source.paths]
    if len(paths) == 2 and all(path.exists() for path in paths) and paths[0].samefile(paths[1]):
        raise typer.BadParameter(
            f"--pairs: expected two files, got {source.path!r} for both sides; name the {languages[1]} file second"
        )
    named = tuple(ending_of(path) for path in source.paths)
    if named == languages[::-1] and named != languages:
        raise typer.BadParameter(
            f"--pairs: expected the {languages[0]} file first, got {','.join(source.paths)!r}; exchange the two files, "
            "or --source and --target"
        )


def _parse_pairs(entry: str, input_format: str, columns: str, keys: str) -> "tuple[str, PairSource]":
    from rela.text.readers import PairSource

    split, equals, files = entry.partition("=")
    paths = files.split(",")
    if not equals or not split or not all(paths) or len(paths) > 2:
        raise typer.BadParameter(f"--pairs: expected SPLIT=FILE or SPLIT=FILE,FILE, got {entry!r}")
    if len(paths) == 2:
        if input_format not in ("auto", "files"):
            raise typer.BadParameter(f"--pairs: expected one file for the format {input_format}, got {files!r}")
        with wrong_use("--pairs"):
            return split, PairSource.files(*paths)
    kind = input_format if input_format != "auto" else _format_of(paths[0])
    if kind == "tsv":
        numbers = columns.split(",")
        if len(numbers) != 2 or not all(number.isascii() and number.isdigit() and int(number) for number in numbers):
            raise typer.BadParameter(f"--columns: expected two numbers from 1 on, such as 1,2; got {columns!r}")
        if int(numbers[0]) == int(numbers[1]):
            raise typer.BadParameter(f"--columns: expected two different columns, such as 1,2; got {columns!r}")
        return split, PairSource.tsv(paths[0], columns=(int(numbers[0]), int(numbers[1])))
    if kind == "jsonl":
        names = keys.split(",")
        if len(names) != 2 or not all(names):
            raise typer.BadParameter(f"--keys: expected two keys such as en,de, got {keys!r}")
        if names[0] == names[1]:
            raise typer.BadParameter(f"--keys: expected two different keys, got {keys!r}; name those of your records")
        return split, PairSource.jsonl(paths[0], keys=(names[0], names[1]))
    raise typer.BadParameter(f"--pairs: expected two files, or one .tsv or .jsonl file (or --format), got {files!r}")


def _format_of(path: str) -> str | None:
    if path == "-":
        return "tsv"
    return {"tsv": "tsv", "jsonl": "jsonl"}.get(ending_of(path))
