"""The tables and figures about the sieve, for tools/make_documents.py.

usage: python tools/sieve_tables.py FOLDER

Writes docs/results/cleaning-counts.json: of the pairs in FOLDER/crawl.tsv, made of FOLDER/train.en and spoiled as
FOLDER/crawl.labels says, those that `rela filter` kept in FOLDER/sieve.
"""

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import null_study
import recipe_study

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "docs" / "results"
BENCHMARKS: Final = ROOT / "bench" / "results"
NOT_YET: Final = "Not measured yet."
CORPORA: Final = ("multi30k", "europarl", "grammar")
ATTENTIONS: Final = ("rela-g", "softmax", "entmax15")
CLEANING: Final = {"clean": "clean", "crawl": "with 30% noise", "kept": "what the sieve kept of it"}
ASKED_RECOVERY: Final = 2 / 3
MANY_PAIRS: Final = 10_000_000_000
PRICE: Final = 0.04
"""Dollars for an hour of a core: put in your own."""
_SCORING: Final = {
    "pairs scored": ("pairs", "{:,}"),
    "seconds, from the first row read to the last one written": ("seconds", "{:,.0f}"),
    "pairs a second, from end to end": ("pairs_per_second_end_to_end", "{:,.0f}"),
    "pairs a second, scoring alone": ("pairs_per_second", "{:,.0f}"),
    "pairs a second and worker": ("pairs_per_second_and_worker", "{:,.0f}"),
    "share of the speed of bare forced decoding (asked: 80%)": ("share_of_bare", "{:.0%}"),
    "most memory of all processes together, GB (asked: less than 2)": ("memory_peak_gb", "{:.2f}"),
    "memory after a tenth of the time, GB": ("memory_tenth_gb", "{:.2f}"),
    "memory after nine tenths of the time, GB": ("memory_nine_tenths_gb", "{:.2f}"),
    "rows of attention that flip over other batches (asked: at most 1e-4)": ("flipped", "{:.1e}"),
}


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def noise(corpus: str, which: str) -> str:
    """Markdown: areas under the curve, or precision, on one corpus."""
    from rela.report.noise import noise_table

    paths = [RESULTS / f"noise-{corpus}-{attention}.json" for attention in ATTENTIONS]
    models = [model for path in paths if path.exists() for model in _load(path)["models"]]
    return noise_table({"models": models}, which) if models else NOT_YET


def _null_runs() -> dict[str, Any]:
    """The study of null attention, as far as there are results of it."""
    paths = [null_study.RESULTS / f"{name}.json" for name in null_study.WAYS]
    return {"runs": [run for path in paths if path.exists() for run in _load(path)["runs"]]}


def null_ends() -> str:
    """Markdown: how well null attention tells shuffled targets when each training of the study has ended."""
    from rela.report.noise import ends_table

    found = _null_runs()
    return ends_table(found) if found["runs"] else NOT_YET


def draw_null(folder: Path) -> None:
    """The study of null attention over training time."""
    from rela.report.figures.style import drawing, save
    from rela.report.noise import draw_over_time

    with drawing(), tempfile.TemporaryDirectory() as drawn:
        save(draw_over_time(_null_runs()), Path(drawn), "null")
        shutil.copyfile(Path(drawn, "null.svg"), folder / "null-attention.svg")


def recipes() -> str:
    """Markdown: scorers trained on a noisy crawl, with one recipe or another."""
    names = [name for name in recipe_study.WAYS if (recipe_study.RESULTS / f"{name}.json").exists()]
    found = {name: _load(recipe_study.RESULTS / f"{name}.json") for name in names}
    if len(found) < 2:
        return NOT_YET
    columns = [(name, score) for score in recipe_study.SCORES for name in names]
    heads = " | ".join(f"{score.replace('_', ' ')}, {name}" for name, score in columns)
    kept = " | ".join(f"kept, {name}" for name in names)
    lines = [f"| noise | {heads} | {kept} |", f"|---|{'--:|' * (len(columns) + len(names))}"]
    for kind in found[names[0]]["auc"]:
        cells = [f"{found[name]['auc'][kind][score]:.3f}" for name, score in columns]
        cells += [f"{found[name]['kept'][kind]:.0%}" for name in names]
        lines.append(f"| {kind.replace('-', ' ')} | {' | '.join(cells)} |")
    good = " | ".join(f"{found[name]['kept']['good']:.0%}" for name in names)
    lines.append(f"| good pairs |{' |' * len(columns)} {good} |")
    settings = [
        f"{name}: share {way.get('share', 0)}, null loss {way.get('null_loss', 0)}"
        for name, way in ((name, found[name]["spoiling"]) for name in names)
    ]
    tokens = found[names[0]]["tokens"]
    text = f"Kept: pairs with a quality of 0.5 or more. {'; '.join(settings)}; {tokens:,} target tokens each."
    return "\n".join([*lines, "", text])


def cleaning() -> str:
    """Markdown: BLEU after training on clean, on noisy and on filtered data."""
    if not all((RESULTS / f"cleaning-{name}.json").exists() for name in CLEANING):
        return NOT_YET
    found = {name: _load(RESULTS / f"cleaning-{name}.json")["scores"]["bleu"] for name in CLEANING}
    counts = _load(RESULTS / "cleaning-counts.json")
    lines = ["| trained on | pairs | of them noise | test 2016 BLEU | 95% interval |", "|---|--:|--:|--:|--:|"]
    for name, what in CLEANING.items():
        interval = f"{found[name]['interval']['mean']:.1f} ± {found[name]['interval']['half_width']:.1f}"
        pairs, bad = counts[name]["pairs"], counts[name]["noise"]
        lines.append(f"| {what} | {pairs:,} | {bad:,} ({bad / pairs:.0%}) | {found[name]['score']:.2f} | {interval} |")
    clean, crawl, kept = (found[name]["score"] for name in CLEANING)
    recovered = (kept - crawl) / (clean - crawl)
    verdict = "met" if recovered >= ASKED_RECOVERY else "**missed**"
    text = f"Recovered: {recovered:.0%} of the loss of {clean - crawl:.2f} BLEU (asked: two thirds; {verdict})."
    return "\n".join([*lines, "", text, "", f"`{found['clean']['signature']}`"])


def cleaning_kinds() -> str:
    """Markdown: which noise was kept."""
    path = RESULTS / "cleaning-counts.json"
    if not path.exists():
        return NOT_YET
    kinds = _load(path)["kinds"]
    lines = ["| kind | pairs | kept |", "|---|--:|--:|"]
    return "\n".join([*lines, *(f"| {k} | {n['pairs']:,} | {n['kept'] / n['pairs']:.1%} |" for k, n in kinds.items())])


def scoring() -> str:
    """Markdown: whole corpora from end to end."""
    found = {
        title: _load(path)
        for name, title in (("score-europarl", "Europarl"), ("score-many", "5,000,000 short pairs"))
        if (path := BENCHMARKS / f"{name}.json").exists()
    }
    if not found:
        return NOT_YET
    lines = [f"| | {' | '.join(found)} |", f"|---|{'--:|' * len(found)}"]
    parameters = " | ".join(f"{data['models'][0]['parameters']:,}" for data in found.values())
    machines = [data["data"]["machine"] for data in found.values()]
    lines.append(f"| processor | {' | '.join(machine['processor'] for machine in machines)} |")
    lines.append(f"| parameters of the model | {parameters} |")
    for what, (name, form) in _SCORING.items():
        cells: list[str] = []
        for data in found.values():
            measures = data["models"][0]["measures"]
            value = data["data"]["pairs"] if name == "pairs" else measures[f"score.{name}"]["value"]
            cells.append(form.format(value))
        lines.append(f"| {what} | {' | '.join(cells)} |")
    signatures = [data["models"][0]["measures"]["score.seconds"]["signature"] for data in found.values()]
    return "\n".join([*lines, "", *(f"`{signature}`  " for signature in signatures)])


def scaling() -> str:
    """Markdown: ten billion pairs, from the measured speed of a worker, which is a core."""
    path = BENCHMARKS / "score-europarl.json"
    if not path.exists():
        return NOT_YET
    data = _load(path)
    speed = data["models"][0]["measures"]["score.pairs_per_second_and_worker"]
    hours = MANY_PAIRS / speed["value"] / 3600
    rows = {
        "pairs a second and core, measured": f"{speed['value']:,.0f}",
        "hours of a core for 10,000,000,000 pairs": f"{hours:,.0f}",
        **{f"days on {cores:,} cores": f"{hours / cores / 24:,.1f}" for cores in (100, 1_000)},
        f"price, if a core costs {PRICE:.2f} dollars an hour (assumed)": f"{hours * PRICE:,.0f} dollars",
    }
    lines = ["| | |", "|---|--:|", *(f"| {what} | {value} |" for what, value in rows.items())]
    return "\n".join([*lines, "", f"`{speed['signature']}`"])


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    **{
        f"noise {which} {corpus}": ("docs/measurements.md", partial(noise, corpus, which))
        for corpus in CORPORA
        for which in ("auc", "precision")
    },
    "null attention": ("docs/measurements.md", null_ends),
    "recipes": ("docs/measurements.md", recipes),
    "cleaning": ("docs/measurements.md", cleaning),
    "cleaning kinds": ("docs/measurements.md", cleaning_kinds),
    "benchmark ten billion": ("docs/scaling.md", scaling),
    "benchmark scoring": ("docs/benchmarks.md", scoring),
}


def count_kept(folder: Path) -> dict[str, Any]:
    """How many pairs there are of each kind, and how many of them were kept. Rows are in the order of the crawl."""
    rows = (folder / "crawl.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    labels = (folder / "crawl.labels").read_text(encoding="utf-8").split("\n")[:-1]
    kept = (folder / "sieve" / "kept.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    place = 0
    totals: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for row, label in zip(rows, labels, strict=True):
        totals[label] += 1
        if place < len(kept) and kept[place] == row:
            passed[label] += 1
            place += 1
    assert place == len(kept)
    noise, noise_kept = (sum(n for label, n in counts.items() if label != "good") for counts in (totals, passed))
    return {
        "clean": {"pairs": (folder / "train.en").read_bytes().count(b"\n"), "noise": 0},
        "crawl": {"pairs": len(rows), "noise": noise},
        "kept": {"pairs": len(kept), "noise": noise_kept},
        "kinds": {label: {"pairs": totals[label], "kept": passed[label]} for label in sorted(totals)},
    }


if __name__ == "__main__":
    (counts_of,) = sys.argv[1:]
    text = json.dumps(count_kept(Path(counts_of)), indent=2) + "\n"
    (RESULTS / "cleaning-counts.json").write_text(text, encoding="utf-8")
