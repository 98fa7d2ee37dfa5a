"""Figures: which are written, what is in them, and that they are the same each time."""

import itertools
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from PIL import Image
from tests.report.helpers import edit_results, write_bench, write_results

from rela.report.choice import AbsentError
from rela.report.figures import write_figures
from rela.report.figures.cases import (
    Case,
    draw_null_clauses,
    draw_null_heads,
    draw_null_layer,
    draw_quality,
    find_cases,
)
from rela.report.figures.curves import draw_aer, draw_diversity, draw_null, draw_sparsity, draw_speed
from rela.report.figures.heatmap import Grid, draw_grid, label_pieces
from rela.report.figures.sheet import Panel, draw_sheet
from rela.report.figures.style import drawing, line_styles
from rela.report.results import Results, load_results

ALL = [
    "figure-01-overview",
    "figure-02-decoding-speed",
    "figure-03-sparsity",
    "figure-04-aer",
    "figure-05-diversity",
    "figure-06-null-rate",
    "figure-07-null-heads-rela-g",
    "figure-08-null-layer-rela-g",
    "figure-09-null-clauses-rela-g",
    "figure-10-pair-quality-rela-g",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results")
    return load_results(write_results(folder, layers=2, heads=3, sentences=3, words=6, seeds=2, findings=2))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return load_results(write_bench(tmp_path_factory.mktemp("bench")))


@pytest.fixture(scope="module")
def written(results: Results, bench: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    report = write_figures(results, folder, bench=bench)
    assert report.left_out == {}
    (note,) = report.notes  # of two seeds
    assert note.startswith("figures 7 to 10 of rela-g show rela-g")
    assert sorted(report.written) == sorted(folder.iterdir())
    return folder


def test_every_figure_in_both_forms(written: Path):
    assert sorted(path.name for path in written.iterdir()) == [
        f"{name}.{form}" for name in ALL for form in ("png", "svg")
    ]
    for name in ALL:
        assert ElementTree.parse(written / f"{name}.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
        with Image.open(written / f"{name}.png") as image:
            image.load()
            assert min(image.size) > 500
            assert np.asarray(image.convert("L")).std() > 10


def test_the_same_bytes_twice(results: Results, bench: Results, written: Path, tmp_path: Path):
    write_figures(results, tmp_path, bench=bench)
    for path in written.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_labels_are_in_the_svg(written: Path):
    for name, labels in {
        "figure-03-sparsity": ["rela-g", "softmax", "encoder self", "decoder self", "cross", "layer"],
        "figure-06-null-rate": ["rela-g", "targets shuffled", "always 0: softmax"],
        "figure-07-null-heads-rela-g": ["⟨s⟩", "exactly 0", "null row: all weights 0"],
    }.items():
        texts = re.findall(r"<!-- (.*?) -->", (written / f"{name}.svg").read_text(encoding="utf-8"), re.DOTALL)
        assert set(labels) <= set(texts), name


def lines(figure: Figure) -> list[list[tuple[str, list[float]]]]:
    """For each panel the labels and heights of its curves."""
    return [
        [(str(line.get_label()), np.asarray(line.get_ydata(), float).tolist()) for line in axes.lines]
        for axes in figure.axes
    ]


@pytest.mark.parametrize("draw", [draw_sparsity, draw_aer, draw_diversity, draw_null])
def test_no_curve_leaves_its_panel(results: Results, draw: Callable[[Results], Figure]):
    figure = draw(results)
    for axes, panel in zip(figure.axes, lines(figure), strict=True):
        low, high = axes.get_ylim()
        assert panel
        for label, values in panel:
            assert low <= min(values) <= max(values) <= high, (axes.get_title(), label)


def test_sparsity_has_the_numbers(results: Results):
    panels = lines(draw_sparsity(results))
    assert [len(panel) for panel in panels] == [2, 2, 2]
    for kind, panel in zip(("encoder", "decoder", "cross"), panels, strict=True):
        expected = [(group.name, group.measures[f"{kind}.sparsity.layer"].value.tolist()) for group in results.groups]
        assert panel == expected


def test_bands_are_the_spread(results: Results):
    axes = draw_sparsity(results).axes[2]
    measure = results.groups[0].measures["cross.sparsity.layer"]
    assert measure.spread is not None
    (path,) = axes.collections[0].get_paths()
    assert np.isclose(np.asarray(path.vertices)[:, 1].max(), (measure.value + measure.spread).max())


def test_one_seed_has_no_band(tmp_path: Path):
    figure = draw_sparsity(load_results(write_results(tmp_path, layers=2, sentences=1, words=3)))
    assert not any(axes.collections for axes in figure.axes)


def test_aer_has_the_best_head_and_the_layer_attention(results: Results):
    panels = lines(draw_aer(results))
    name = "cross.aer.shifted.merged"
    seeds = [model.measures[name].value.min(1) for model in results.models if model.info["group"] == "rela-g"]
    assert np.allclose(panels[1][0][1], np.mean(seeds, 0))
    assert np.allclose(panels[3][0][1], results.groups[0].measures[f"{name}.layer_attention"].value)


def test_diversity_has_the_taus(results: Results):
    panels = lines(draw_diversity(results))
    taus = results.groups[0].measures["cross.diversity.tau.mean"].value
    assert panels[5][0] == ("rela-g", taus[::-1].tolist())  # from the least tau on
    level = float(results.groups[1].measures["cross.diversity.mean"].value)
    assert panels[5][1] == ("softmax", [level, level])


def test_null_has_shuffled_targets_and_all_heads(results: Results):
    figure = draw_null(results)
    cross = lines(figure)[2]
    assert [label for label, _ in cross] == ["rela-g", "rela-g, shuffled targets"]
    assert cross[1][1] == results.groups[0].measures["hallucinated.null.shuffled"].value.tolist()
    assert figure.axes[2].lines[1].get_linestyle() == "--"


def dots(results: Results, panel: int = 2) -> list[tuple[float, float]]:
    """Layers and rates of the dots in figure 6."""
    found = [found for found in draw_null(results).axes[panel].collections if type(found) is PathCollection]
    return sorted((float(x), float(y)) for each in found for x, y in np.asarray(each.get_offsets()).tolist())


def test_dots_are_single_heads_of_single_seeds(tmp_path: Path):
    rates = [[0.0, 0.5, 1.0], [0.25, 0.5, 0.75]]

    def permute(data: dict[str, Any]) -> None:
        for model, order in zip(data["models"], ([0, 1, 2], [2, 0, 1]), strict=True):
            model["measures"]["cross.null"]["value"] = np.array(rates)[:, order].tolist()

    write_results(tmp_path, ["rela-g"], layers=2, heads=3, sentences=1, words=3, seeds=2)
    expected = sorted(2 * [(1.0 + layer, rate) for layer, row in enumerate(rates) for rate in row])
    assert dots(load_results(edit_results(tmp_path, permute))) == expected

    def add_means(data: dict[str, Any]) -> None:
        """As files had them once."""
        of_model = data["models"][0]["measures"]["cross.null"]
        means = {"mean": [[0.5] * 3] * 2, "spread": [[0.1] * 3] * 2}
        data["groups"][0]["measures"]["cross.null"] = {
            **{key: of_model[key] for key in ("signature", "axes", "labels")},
            **means,
        }

    assert dots(load_results(edit_results(tmp_path, add_means))) == expected


def test_speed(bench: Results):
    (panel,) = lines(draw_speed(bench))
    assert dict(panel)["rela-g"] == [0.9] * 10
    with pytest.raises(AbsentError, match="no benchmark was given"):
        draw_speed(None)


def test_all_zero_cells_of_null_rows(results: Results):
    (case,) = find_cases(results)
    with drawing():
        axes = draw_null_heads(case).axes[0]
    assert case.examples.weights(0, "cross", 0) is not None
    weights = case.examples.weights(0, "cross", 0)[1, 1]  # pyright: ignore[reportOptionalSubscript]
    nulls = (weights == 0).all(1)
    assert nulls.any()
    assert sum(text.get_text() == "∅" for text in axes.texts) == nulls.sum()
    zeros = ((weights == 0) & ~nulls[:, None]).sum()
    assert len(axes.collections[2].get_offsets()) == zeros  # pyright: ignore[reportArgumentType] (a dot each)


@pytest.mark.parametrize(
    ("draw", "panels"), [(draw_null_heads, 2), (draw_null_layer, 3), (draw_null_clauses, 4), (draw_quality, 3)]
)
def test_panels(results: Results, draw: Callable[[Any], Figure], panels: int):
    (case,) = find_cases(results)
    with drawing():
        assert len(draw(case).axes) == panels + 1  # and the key


@pytest.mark.parametrize("draw", [draw_null_heads, draw_null_layer, draw_null_clauses, draw_quality])
def test_titles_keep_apart(tmp_path: Path, draw: Callable[[Any], Figure]):
    """Also over grids that are narrower than their titles."""
    (case,) = find_cases(load_results(write_results(tmp_path, ["rela-g"], heads=4, words=4, findings=3)))
    with drawing():
        figure = draw(case)
        FigureCanvasAgg(figure)
        titles = [text.get_window_extent() for text in figure.texts if text.get_fontweight() == "bold"]
    assert len(titles) > 1
    for title in titles:
        assert title.x0 >= 0
        assert title.x1 <= figure.bbox.x1
    for first, second in itertools.combinations(titles, 2):
        assert not first.padded(4).overlaps(second)


@pytest.mark.parametrize(("most", "line"), [(40, 1), (3, 2)])
def test_the_strongest_findings_sentence_unless_it_is_long(
    results: Results, monkeypatch: pytest.MonkeyPatch, most: int, line: int
):
    (case,) = find_cases(results)
    for place, finding in enumerate(case.findings):
        monkeypatch.setitem(finding, "sentence", place)

    def length(_: Case, number: int) -> int:
        return {0: 9, 1: 5}.get(number, 10)

    monkeypatch.setattr("rela.report.figures.cases._MOST_PIECES", most)
    monkeypatch.setattr("rela.report.figures.cases._length", length)
    with drawing():
        labels = [tick.get_text() for tick in draw_null_heads(case).axes[0].get_xticklabels()]
    words = case.examples.sentences[line - 1]["source_words"]
    assert labels[0] == words[0][:4]


def test_a_sentence_with_words_of_all_heads(results: Results, monkeypatch: pytest.MonkeyPatch):
    (case,) = find_cases(results)
    tags = ([], ["SCONJ", "PUNCT"], ["DET", "PUNCT"])
    for sentence, found in zip(case.examples.sentences, tags, strict=False):
        rest = ["X"] * (len(sentence["target_words"]) - len(found))
        monkeypatch.setitem(sentence, "target_tags", [*found, *rest])
    monkeypatch.setitem(case.examples.sentences[2], "target_words", ["DIE", ",", "A", "B", "C"])
    for finding, category in zip(case.findings, ("DET", "PUNCT ,"), strict=True):
        monkeypatch.setitem(finding, "category", category)
    with drawing():
        labels = [tick.get_text() for tick in draw_null_heads(case).axes[0].get_xticklabels()]
    assert labels[0] == case.examples.sentences[2]["source_words"][0][:4]


def test_titles_of_a_row_are_at_one_height():
    grid = Grid(np.ones((3, 12), np.float32), ["a", "b", "c"], ["x"] * 12)
    longer = replace(grid, columns=["a longer label"] * 12)
    texts = {"first": "a few words", "second": "many words " * 20, "third": ""}
    panels = [Panel(longer if title == "first" else grid, title, text) for title, text in texts.items()]
    with drawing():
        figure = draw_sheet(panels, least=0.1, columns=3)
    assert len({text.get_position()[1] for text in figure.texts if text.get_text() in texts}) == 1


def test_quality_says_which_head_it_is(results: Results):
    (case,) = find_cases(results)
    with drawing():
        texts = [" ".join(text.get_text().split()) for text in draw_quality(case).texts]
    weights = case.examples.weights(case.place, "cross", 3)
    assert weights is not None
    rate = (weights[1, 0] == 0).all(-1).mean()
    assert texts[:2] == [
        "as it is",
        f"Layer 2 head 0 (cross) aligns best; its null rate here is {rate:.0%}.",
    ]


def test_the_future_is_no_zero():
    weights = np.tril(np.ones((3, 3), np.float32))
    axes = Figure().subplots()
    draw_grid(axes, Grid(weights, ["a", "b", "c"], ["a", "b", "c"], causal=True))
    assert len(axes.collections[2].get_offsets()) == 0  # pyright: ignore[reportArgumentType] (no dots)


def test_pieces_as_labels():
    pieces = ["Poliz", "isten", " ", " Donau\t", "dampfschifffahrtsgesellschaft", "</s>"]
    owners = [[0], [0], [], [1], [1], []]
    assert label_pieces(pieces, owners) == ["Poliz", "·isten", "␣", "Donau", "·dampfschifffahr…", "</s>"]


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"gold": False}, {2: "no benchmark", 4: "gold links", 10: "gold links"}),
        (
            {"models": ["softmax"]},
            {2: "no benchmark", 6: "null rates are 0", 7: "ever", 8: "ever", 9: "ever", 10: "ever"},
        ),
    ],
)
def test_what_is_left_out_and_why(tmp_path: Path, options: dict[str, Any], missing: dict[int, str]):
    report = write_figures(
        load_results(write_results(tmp_path, layers=2, heads=2, sentences=2, words=4, **options)), tmp_path / "figures"
    )
    assert {int(re.findall(r"\d+", name)[0]) for name in report.left_out} == set(missing)
    for name, why in report.left_out.items():
        assert missing[int(re.findall(r"\d+", name)[0])] in why
    numbers = {int(path.name[7:9]) for path in report.written}
    assert numbers == set(range(1, 11)) - set(missing)


def test_without_examples_and_findings(tmp_path: Path):
    write_results(tmp_path / "a", layers=1, heads=1, sentences=1, words=3, findings=0)
    report = write_figures(load_results(tmp_path / "a"), tmp_path / "figures")
    no_specialist = "no head of rela-g is a specialist by the findings: "
    assert report.left_out["figure 7 (null-heads)"].startswith(f"{no_specialist}no null rate depends")

    def without_tags(data: dict[str, Any]) -> None:
        for name in ("decoder.null.tag", "cross.null.tag"):
            del data["models"][0]["measures"][name]

    report = write_figures(load_results(edit_results(tmp_path / "a", without_tags)), tmp_path / "figures")
    assert report.left_out["figure 7 (null-heads)"] == f"{no_specialist}that takes tags (--tags or --tagger)"
    (tmp_path / "a" / "attention.npz").unlink()
    report = write_figures(load_results(tmp_path / "a"), tmp_path / "figures")
    assert "there is no attention.npz" in report.left_out["figure 10 (pair-quality)"]
    assert (tmp_path / "figures" / "figure-01-overview.svg").is_file()


def test_older_figures_go_and_others_stay(tmp_path: Path):
    for name in ("figure-04-aer.svg", "figure-07-null-heads-old.png", "figure-04-mine.svg", "notes.txt"):
        (tmp_path / name).write_text("old")
    write_figures(
        load_results(write_results(tmp_path / "a", ["softmax"], layers=1, heads=1, sentences=1, words=2, gold=False)),
        tmp_path,
    )
    left = {path.name for path in tmp_path.iterdir() if path.is_file() and path.read_bytes() == b"old"}
    assert left == {"figure-04-mine.svg", "notes.txt"}


def test_numbers_that_are_not_there(tmp_path: Path):
    def remove(data: dict[str, Any]) -> None:
        for entry in data["groups"]:
            entry["measures"]["cross.sparsity.layer"]["mean"][0] = None
            entry["measures"]["encoder.null.layer"]["mean"] = [None] * 2

    write_results(tmp_path, layers=2, heads=2, sentences=1, words=3)
    report = write_figures(load_results(edit_results(tmp_path, remove)), tmp_path / "figures")
    assert list(report.left_out) == [
        "figure 2 (decoding-speed)",
        "figure 6 (null-rate)",
        "figure 9 (null-clauses)",
    ]


def test_words_with_dollars_and_of_other_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = ["$a_1$", "\\frac", "x^2", "\U0001f9ff", "&<>", "{"]
    monkeypatch.setattr("rela.report.figures.style._FONTS", ["DejaVu Sans"])
    results = load_results(write_results(tmp_path, layers=1, heads=1, sentences=1, words=6, vocabulary=words))
    report = write_figures(results, tmp_path / "figures")
    text = (tmp_path / "figures" / "figure-07-null-heads-rela-g.svg").read_text(encoding="utf-8")
    assert "<!-- $a_1 -->" in text
    assert "<!-- ·$ -->" in text
    (note,) = report.notes
    assert note.startswith("no font here has \U0001f9ff: boxes stand for them")


def test_many_models_are_told_apart():
    styles = line_styles(["softmax", "rela-g", *(f"model {number}" for number in range(8))])
    assert styles["rela-g"] == line_styles(["rela-g"])["rela-g"]
    assert len({(style.color, style.marker, style.dashes) for style in styles.values()}) == 10
