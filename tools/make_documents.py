"""Writes what the documents show: the picture and the tables, from results that are committed as data.

usage: python tools/make_documents.py [--weights] [--keep RESULTS NAME]

Reads docs/results/*.json, bench/results/*.json and reproduction/; writes docs/figures/*.svg and the tables in README.md
and docs/*.md.
Needs matplotlib.
--weights: first computes docs/results/weights.json anew.
--keep: first copies what the tables and figures need of the results of `rela analyze` to docs/results/NAME.json.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import paper_tables
import sieve_tables

from rela.report.benchmarks import tables

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
BENCHMARKS = ROOT / "bench" / "results"
EARLIER = BENCHMARKS / "avx2"  # of another machine, by the code of commit 58f01c5 and some before it
TABLE_START = "<!-- {}: tools/make_documents.py, from {} -->"
TABLE_END = "<!-- end of {} -->"
NOT_YET = "Not measured yet."
INT8_LOSS = 0.2  # of BLEU: less was asked for
_OF_REPRODUCTION = ("paper claim", "paper table")
_OF_BENCHMARKS = ("benchmark ", "sublayer speed", "core speed")
MAPS = ("softmax", "sparsemax", "relu")
GRAMMAR_TABLES = (
    "models",
    "aer",
    "best-heads",
    "symmetrised",
    "diversity",
    "sparsity",
    "null",
    "hallucination",
    "tags",
    "ablation",
)
GRAMMAR_FIGURES = ("figure-03-sparsity", "figure-04-aer", "figure-05-diversity", "figure-06-null-rate")


def compute_weights() -> dict[str, object]:
    """The same scores under three maps: 9 queries, 12 keys, scores normal with mean -1.5 and deviation 1.5."""
    import torch

    from rela.attention.maps import map_scores
    from rela.attention.spec import resolve

    scores = torch.randn(9, 12, generator=torch.Generator().manual_seed(3)) * 1.5 - 1.5
    weights = {name: map_scores(resolve(name), scores, None) for name in MAPS}
    return {
        "signature": "weights|scores:normal(-1.5,1.5)|Tq:9|Tk:12|seed:3",
        "weights": {name: [[float(f"{x:.4g}") for x in row] for row in w.tolist()] for name, w in weights.items()},
    }


def weights_figure(data: dict[str, dict[str, list[list[float]]]]) -> str:
    """Three grids side by side: darker is more weight, a dot is exactly zero, a framed row attends to nothing."""
    cell, gap, top = 20, 44, 34
    titles = {"softmax": "softmax", "sparsemax": "sparsemax", "relu": "ReLA (ReLU)"}
    rows, columns = len(data["weights"]["relu"]), len(data["weights"]["relu"][0])
    panel = columns * cell
    width, height = 3 * panel + 2 * gap + 20, top + rows * cell + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for number, name in enumerate(MAPS):
        grid = data["weights"][name]
        left = 10 + number * (panel + gap)
        largest = max(max(row) for row in grid)
        zeros = sum(x == 0 for row in grid for x in row) / (rows * columns)
        nulls = sum(all(x == 0 for x in row) for row in grid)
        frames: list[str] = []
        parts.append(f'<text x="{left}" y="20" font-weight="600" fill="#1f2937">{titles[name]}</text>')
        for i, row in enumerate(grid):
            for j, x in enumerate(row):
                place = f'x="{left + j * cell}" y="{top + i * cell}" width="{cell - 1}" height="{cell - 1}"'
                if x == 0:
                    parts.append(f'<rect {place} fill="#f3f4f6"/>')
                    centre = f'cx="{left + j * cell + cell / 2 - 0.5}" cy="{top + i * cell + cell / 2 - 0.5}"'
                    parts.append(f'<circle {centre} r="1.5" fill="#9ca3af"/>')
                else:
                    strength = 0.12 + 0.88 * x / largest
                    parts.append(f'<rect {place} fill="#1d4ed8" fill-opacity="{strength:.3f}"/>')
            if all(x == 0 for x in row):
                frame = f'x="{left - 2}" y="{top + i * cell - 2}" width="{panel + 3}" height="{cell + 3}"'
                frames.append(f'<rect {frame} fill="none" stroke="#dc2626" stroke-width="2" rx="2"/>')
        parts += frames
        note = f"{zeros:.0%} exactly zero" + (f", {nulls} null queries" if nulls else "")
        parts.append(f'<text x="{left}" y="{top + rows * cell + 22}" fill="#4b5563">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def demo_table() -> str:
    """Markdown: what `rela demo` found, for each attention it was run with."""
    lines = ["| attention | parameters | BLEU test | BLEU test-compositional | AER test |", "|---|--:|--:|--:|--:|"]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("demo-*.json"))]
    if not results:
        return NOT_YET
    for result in results:
        scores = f"{result['bleu']:.1f} | {result['bleu_compositional']:.1f} | {result['aer']:.1%}"
        lines.append(f"| `{result['attention']}` | {result['parameters']:,} | {scores} |")
    return "\n".join([*lines, "", f"`{results[0]['signatures']['bleu']}`"])


def multi30k_table() -> str:
    """Markdown: the Multi30k models, and how they were trained."""
    lines = [
        "| attention | parameters | target tokens | dev loss | dev BLEU (greedy) | "
        "test 2016 BLEU | 95% interval | chrF2 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    signature = ""
    if not (RESULTS / "multi30k-rela-g-test.json").exists():
        return NOT_YET
    for attention in ("softmax", "rela-g"):
        train, test = _read(f"multi30k-{attention}-train.json"), _read(f"multi30k-{attention}-test.json")
        bleu, chrf = test["scores"]["bleu"], test["scores"]["chrf"]
        interval = f"{bleu['interval']['mean']:.1f} ± {bleu['interval']['half_width']:.1f}"
        lines.append(
            f"| `{train['attention']}` | {train['parameters']:,} | {train['tokens']:,} | "
            f"{train['best']['loss']:.3f} | {train['best']['bleu']:.1f} | "
            f"{bleu['score']:.2f} | {interval} | {chrf['score']:.1f} |"
        )
        signature = bleu["signature"]
    return "\n".join([*lines, "", f"`{signature}`"])


def precision_table() -> str:
    """Markdown: what weights of 8 bits cost in BLEU."""
    if not (RESULTS / "multi30k-int8.json").exists():
        return NOT_YET
    found = _read("multi30k-int8.json")
    (compared,) = found["comparisons"]
    verdict = "met" if compared["delta"] > -INT8_LOSS else "**missed**"
    row = f"{compared['baseline_score']:.2f} | {compared['score']:.2f} | {compared['delta']:+.2f}"
    return "\n".join(
        [
            "| | fp32 | int8 | difference | p (randomisation) | asked |",
            "|---|--:|--:|--:|--:|--:|",
            f"| BLEU | {row} | {compared['p_randomisation']:.2f} | loss < {INT8_LOSS} {verdict} |",
            "",
            f"`{compared['signature']}`",
        ]
    )


def kinds_table() -> str:
    """Markdown: the demo's training with rela-g in one kind of attention only."""
    names = {"none": "nowhere", "encoder": "encoder", "decoder": "decoder", "cross": "cross", "all": "everywhere"}
    if not all((RESULTS / f"kinds-{name}.json").exists() for name in names):
        return NOT_YET
    losses = [f"{_read(f'kinds-{name}.json')['best']['loss']:.3f}" for name in names]
    lines = [f"| `rela-g` in | {' | '.join(names.values())} |", f"|---|{'--:|' * len(names)}"]
    return "\n".join([*lines, f"| dev loss at the end | {' | '.join(losses)} |"])


def results_table() -> str:
    """Markdown for the README: the translation system in a few numbers, softmax beside rela-g."""
    pair = ("softmax", "rela-g")
    names = [f"{kind}-{attention}{end}" for kind, end in (("demo", ""), ("multi30k", "-test")) for attention in pair]
    if not all((RESULTS / f"{name}.json").exists() for name in names):
        return NOT_YET
    demos, tests = [[_read(f"{name}.json") for name in part] for part in (names[:2], names[2:])]
    rows = {
        "built-in grammar, unseen sentences: BLEU": [f"{demo['bleu']:.1f}" for demo in demos],
        "built-in grammar, unseen combinations: BLEU": [f"{demo['bleu_compositional']:.1f}" for demo in demos],
        "built-in grammar: word alignment error rate": [f"{demo['aer']:.1%}" for demo in demos],
        "Multi30k English-German, test 2016: BLEU": [f"{test['scores']['bleu']['score']:.1f}" for test in tests],
    }
    lines = [f"| {what} | {' | '.join(values)} |" for what, values in rows.items()]
    return "\n".join(["| | `softmax` | `rela-g` |", "|---|--:|--:|", *lines])


def benchmark_table(name: str, make: Callable[[Any], str]) -> str:
    """Markdown: a table of a benchmark's results."""
    from rela.report.benchmarks.read import read_benchmark

    path = BENCHMARKS / f"{name}.json"
    if not path.exists():
        return NOT_YET
    bench = read_benchmark(path)
    return "\n\n".join([make(bench), *tables.caveats(bench)])


def targets_table() -> str:
    """Markdown: all that was asked for, and what came of it, here and on another machine before."""
    from rela.report.benchmarks.read import read_benchmark
    from rela.report.benchmarks.tables import summary_table

    names = ("attention", "step", "train", "train-base", "decode")
    here, before = (
        {name: read_benchmark(path) for name in names if (path := folder / f"{name}.json").exists()}
        for folder in (BENCHMARKS, EARLIER)
    )
    machines = [list(found.values()) for found in (here, before) if found]
    notes = [f"{name}, first column: {text}" for name, bench in here.items() for text in tables.caveats(bench)]
    return "\n\n".join([summary_table(*machines), *notes]) if machines else NOT_YET


def draw_benchmarks(folder: Path) -> None:
    """The figures of the benchmarks that there are results of."""
    from rela.report.benchmarks.figures import draw_core, draw_scaling, draw_steps
    from rela.report.benchmarks.read import read_benchmark
    from rela.report.figures.curves import draw_speed
    from rela.report.figures.style import drawing, save
    from rela.report.results import load_results

    draws: dict[str, Callable[[Path], Any]] = {
        "attention": lambda path: draw_core(read_benchmark(path)),
        "memory": lambda path: draw_scaling(read_benchmark(path)),
        "decode": lambda path: draw_steps(read_benchmark(path)),
        "length": lambda path: draw_speed(load_results(path)),
    }
    with tempfile.TemporaryDirectory() as drawn:
        for name, draw in draws.items():
            if (path := BENCHMARKS / f"{name}.json").exists():
                with drawing():
                    save(draw(path), Path(drawn), name)
                shutil.copyfile(Path(drawn, f"{name}.svg"), folder / f"bench-{name}.svg")


def analysis_table(name: str, table: str, *, paper: bool = True) -> str:
    """Markdown: a table of `rela report`, from results that were kept."""
    from rela.report.results import load_results
    from rela.report.tables import markdown_table

    path = RESULTS / f"{name}.json"
    if not path.exists():
        return NOT_YET
    lines = markdown_table(load_results(path), table, paper=paper).splitlines()
    return "\n".join(lines[2:] if lines[0].startswith("#") else lines).strip()


def looking_cost_table() -> str:
    """Markdown: what analyses and alignments took, in times of a plain forward pass."""
    costs: dict[str, dict[str, list[float]]] = {}
    for data in ("grammar", "gold"):
        for model in _read(f"analysis-{data}.json")["models"]:
            costs.setdefault(model["attention"], {}).setdefault(data, []).append(model["cost"]["ratio"])
    aligned = {
        path.stem.removeprefix("align-"): json.loads(path.read_text(encoding="utf-8"))["models"][0]["measures"]
        for path in BENCHMARKS.glob("align-*.json")
    }
    lines = [
        "| attention | analysis, built-in corpus | analysis, Europarl | `rela align`, built-in corpus | "
        "`rela align`, Multi30k |",
        "|---|--:|--:|--:|--:|",
    ]
    for attention, found in costs.items():
        row = [" ".join(f"{ratio:.2f}" for ratio in found.get(data, ())) or "-" for data in ("grammar", "gold")]
        row += [
            f"{aligned[name]['align.cost']['value']:.2f}" if (name := f"{data}-{attention}") in aligned else "-"
            for data in ("grammar", "multi30k")
        ]
        lines.append(f"| `{attention}` | {' | '.join(row)} |")
    signatures = "; ".join(f"`{found['align.cost']['signature']}`" for _, found in sorted(aligned.items()))
    return "\n".join([*lines, "", signatures])


def draw_analysis(folder: Path) -> None:
    """The figures of the paper that aggregates are enough for, of the models of the built-in corpus."""
    from rela.report.figures import write_figures
    from rela.report.results import load_results

    with tempfile.TemporaryDirectory() as drawn:
        write_figures(load_results(RESULTS / "analysis-grammar.json"), Path(drawn))
        for name in GRAMMAR_FIGURES:
            shutil.copyfile(Path(drawn, f"{name}.svg"), folder / f"grammar-{name}.svg")


def keep_results(source: Path, name: str) -> None:
    """Copy results without what no document shows, and without the folders of this machine."""
    from rela.experiments.reproduce.keeping import is_shown, rounded

    data = json.loads((source / "results.json").read_text(encoding="utf-8"))
    for entry in (*data["models"], *data["groups"]):
        entry["measures"] = {
            measure: rounded(found) for measure, found in entry["measures"].items() if is_shown(measure)
        }
        entry.pop("path", None)
    for key in ("source", "target", "tags"):
        data["data"][key] = data["data"][key] and Path(data["data"][key]).name
    if data["data"]["gold"] is not None:
        for key in ("sure", "possible"):
            data["data"]["gold"][key] = data["data"]["gold"][key] and Path(data["data"]["gold"][key]).name
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    (RESULTS / f"{name}.json").write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    **{
        mark: (document, partial(benchmark_table, name, partial(tables.attentions_table, part=part)))
        for mark, document, name, part in (
            ("sublayer speed", "README.md", "sublayer", "sublayer"),
            ("core speed", "docs/attention.md", "sublayer", "core"),
        )
    },
    **{
        f"benchmark {mark}": ("docs/benchmarks.md", partial(benchmark_table, name, make))
        for mark, name, make in (
            ("machine", "decode", tables.machine_table),
            ("core", "attention", tables.core_table),
            ("entmax", "attention", tables.entmax_table),
            ("scaling", "memory", tables.scaling_table),
            ("scaling points", "memory", tables.scaling_points_table),
            ("steps", "decode", tables.steps_table),
            ("decoding", "decode", tables.decoding_table),
            ("length", "length", tables.length_table),
            ("step", "step", tables.train_table),
            ("train", "train", tables.train_table),
            ("train base", "train-base", tables.train_table),
            ("serve", "serve", tables.serve_table),
            ("serve base", "serve-base", tables.serve_table),
        )
    },
    "benchmark targets": ("docs/benchmarks.md", targets_table),
    "benchmark summary": ("README.md", targets_table),
    "demo": ("docs/measurements.md", demo_table),
    "multi30k": ("docs/measurements.md", multi30k_table),
    "precision": ("docs/benchmarks.md", precision_table),
    "kinds": ("docs/measurements.md", kinds_table),
    "results": ("README.md", results_table),
    "looking cost": ("docs/measurements.md", looking_cost_table),
    **{
        f"grammar {table}": ("docs/measurements.md", partial(analysis_table, "analysis-grammar", table))
        for table in GRAMMAR_TABLES
    },
    **{
        f"gold {table}": ("docs/measurements.md", partial(analysis_table, "analysis-gold", table))
        for table in ("models", "aer", "best-heads", "hallucination")
    },
    **sieve_tables.TABLES,
    **paper_tables.TABLES,
}
"""The marks around a table, the document it stands in, and what makes it."""


def with_table(document: str, mark: str, table: str) -> str:
    """The document with the table between its marks."""
    if mark.startswith(_OF_BENCHMARKS):
        folder = "bench/results"
    else:
        folder = "reproduction" if mark.startswith(_OF_REPRODUCTION) else "docs/results"
    start, end = TABLE_START.format(mark, folder), TABLE_END.format(mark)
    before, found_start, rest = document.partition(start)
    _, found_end, after = rest.partition(end)
    if not found_start or not found_end:
        raise ValueError(f"expected a document with the marks {start!r} and {end!r}, got one without")
    return f"{before}{start}\n{table}\n{end}{after}"


def main() -> None:
    """Write all documents' pictures and tables."""
    weights = RESULTS / "weights.json"
    if "--weights" in sys.argv[1:]:
        weights.write_text(json.dumps(compute_weights()) + "\n", encoding="utf-8")
    if "--keep" in sys.argv[1:]:
        source, name = sys.argv[sys.argv.index("--keep") + 1 :][:2]
        keep_results(Path(source), name)
    figure = weights_figure(json.loads(weights.read_text(encoding="utf-8")))
    (ROOT / "docs" / "figures" / "weights.svg").write_text(figure, encoding="utf-8")
    draw_analysis(ROOT / "docs" / "figures")
    draw_benchmarks(ROOT / "docs" / "figures")
    sieve_tables.draw_null(ROOT / "docs" / "figures")
    for mark, (name, make) in TABLES.items():
        document = ROOT / name
        text = with_table(document.read_text(encoding="utf-8"), mark, make())
        document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
