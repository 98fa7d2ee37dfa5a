"""`rela evaluate`: BLEU, tokenised BLEU and chrF of translations, and whether systems differ."""

from typing import TYPE_CHECKING, Annotated

import typer

from rela._files import naming
from rela._streams import STANDARD_OUTPUT, check_standard_output, has_standard_output
from rela.cli._output import STDOUT, JsonOption, check_not_input, console_for, write_json
from rela.cli._usage import told_when_stopped

if TYPE_CHECKING:
    from rich.console import Console

    from rela.evaluation import Comparison, Recipe, Scores

STDIN = "-"
NUM_BOOTSTRAP = 1000


def evaluate(
    hypotheses: Annotated[
        str, typer.Argument(metavar="HYPOTHESES", help="Translations, one a line; - for standard input.")
    ],
    reference: Annotated[
        list[str], typer.Option(metavar="FILE", help="What they should be; repeat it for further references.")
    ],
    system: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Another system's translations, to be compared with the first; repeatable."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="bleu, chrf, chrf++ or tokenised; repeatable. Default: bleu and chrf, with --language or "
            "--pretokenised also tokenised.",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Target language, such as de, to tokenise the text.")
    ] = None,
    pretokenised: Annotated[
        bool, typer.Option("--pretokenised", help="All files are tokenised already: both BLEUs split at blanks.")
    ] = False,
    tokenize: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="sacrebleu's tokenizer for bleu: 13a, the default; zh for Chinese; intl, none, ..."
        ),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    bootstrap: Annotated[
        int | None, typer.Option(min=40, help=f"Bootstrap samples for intervals and tests. Default: {NUM_BOOTSTRAP}.")
    ] = None,
    no_bootstrap: Annotated[bool, typer.Option("--no-bootstrap", help="No intervals, no bootstrap tests.")] = False,
    json_to: JsonOption = None,
) -> None:
    """Score translations: BLEU, chrF, and tokenised BLEU as multi-bleu.perl has it; compare systems.

    Each score has a 95% interval (mean ± half width of bootstrap samples) and a signature, the whole recipe behind
    it. bleu and chrf are sacrebleu's and want detokenised text. With --system each further system is tested against
    the first, by paired bootstrap and by paired approximate randomisation.
    """
    systems = system or []
    if STDIN in (*reference, *systems):
        raise typer.BadParameter("expected files for --reference and --system, got -; only HYPOTHESES may be -")
    if twice := sorted({name for name in systems if systems.count(name) > 1}):
        raise typer.BadParameter(f"--system: expected each file once, got {', '.join(twice)} again")
    if bootstrap is not None and no_bootstrap:
        raise typer.BadParameter(f"--no-bootstrap: expected it alone, got --bootstrap {bootstrap} too")
    inputs = {"HYPOTHESES": [hypotheses], "--reference": reference, "--system": systems}
    check_not_input(json_to, "--json", inputs)
    recipe = _make_recipe(metric, tokenize, language, pretokenised, lowercase)
    if json_to in (None, STDOUT):
        check_standard_output()
    with told_when_stopped(lambda: "no scores were written: the same command begins anew"):
        num_bootstrap = 0 if no_bootstrap else bootstrap or NUM_BOOTSTRAP
        scores, comparisons = _score(hypotheses, reference, systems, recipe, num_bootstrap)
    if json_to is not None:
        result = {
            "schema": "rela-evaluate/1",
            "hypotheses": hypotheses,
            "references": reference,
            **scores.to_json(),
            "comparisons": [comparison.to_json() for comparison in comparisons],
        }
        write_json(result, json_to)
    console = console_for(json_to)
    if console.quiet or not has_standard_output():
        return
    title = f"{_shown(hypotheses)}, {scores.num_lines} lines, references: {', '.join(reference)}"
    with naming(STANDARD_OUTPUT):
        _show_scores(console, scores, title)
        if comparisons:
            _show_comparisons(console, comparisons, f"compared with {_shown(hypotheses)}")


def _score(
    hypotheses: str, reference: list[str], systems: list[str], recipe: "Recipe", num_bootstrap: int
) -> "tuple[Scores, list[Comparison]]":
    from rela.evaluation import check_parallel, compare, evaluate, read_lines

    texts = {name: read_lines(name) for name in (*reference, *systems)}
    lines, references = read_lines(hypotheses), [texts[name] for name in reference]
    check_parallel([*((name, texts[name]) for name in reference), (_shown(hypotheses), lines), *texts.items()])
    scores = evaluate(lines, references, recipe, num_bootstrap=num_bootstrap)
    others = {name: texts[name] for name in systems}
    return scores, compare(lines, others, references, recipe, num_bootstrap=num_bootstrap) if others else []


def _make_recipe(
    metrics: list[str] | None, tokenize: str | None, language: str | None, pretokenised: bool, lowercase: bool
) -> "Recipe":
    from rela.evaluation.recipe import Recipe

    try:
        recipe = Recipe(
            metrics=tuple(metrics) if metrics else None,
            tokenize=tokenize,
            language=language,
            pretokenised=pretokenised,
            lowercase=lowercase,
        )
        if tokenize is not None:
            from rela.evaluation.bleu import check_tokenize

            check_tokenize(tokenize)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return recipe


def _shown(name: str) -> str:
    return "standard input" if name == STDIN else name


def _show_scores(console: "Console", scores: "Scores", title: str) -> None:
    from rich.table import Table

    from rela.evaluation import BleuScore

    console.print(title)
    table = Table()
    table.add_column("metric", overflow="fold")
    for column in ("score", "95% interval", "precisions", "BP", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for score in scores:
        parts = ("", "", "")
        if isinstance(score, BleuScore):
            precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
            parts = (precisions, f"{score.brevity_penalty:.3f}", f"{score.ratio:.3f}")
        table.add_row(score.name, f"{score.score:.2f}", str(score.interval or "-"), *parts)
    console.print(table)
    for score in scores:
        console.print(score.signature, style="dim")


def _show_comparisons(console: "Console", comparisons: "list[Comparison]", title: str) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(f"\n{title}")
    table = Table("system", "metric")
    for column in ("score", "delta", "p boot-\nstrap", "p random-\nisation"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in comparisons:
        p_values = ("-" if p is None else f"{p:.4f}" for p in (row.p_bootstrap, row.p_randomisation))
        table.add_row(Text(row.system, overflow="fold"), row.name, f"{row.score:.2f}", f"{row.delta:+.2f}", *p_values)
    console.print(table)
    for signature in dict.fromkeys(comparison.signature for comparison in comparisons):
        console.print(signature, style="dim")
