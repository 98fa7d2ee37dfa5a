"""Tables and curves of `rela bench noise`."""

from pathlib import Path
from typing import Any

from rela.report.figures.style import drawing, save
from rela.report.noise import draw_over_time, ends_table, noise_table

SCORES = (
    "quality",
    "null_rate",
    "null_rate_matching",
    "coverage",
    "cross_entropy",
    "attention_penalty",
    "length_ratio",
)


def model(attention: str, null: float) -> dict[str, Any]:
    areas = dict.fromkeys(SCORES, 0.7) | {"null_rate": null, "null_rate_matching": null, "quality": 0.98765}
    noises = {noise: {"auc": areas, "precision": areas} for noise in ("shuffled", "word-salad")}
    return {"attention": attention, "signature": f"noise|{attention}", "noises": noises}


def test_table():
    lines = noise_table({"models": [model("rela-g", 0.6), model("softmax", 0.5)]}).split("\n")
    assert lines[0].count("|") == lines[2].count("|") == 2 + 6 + 3 + 1
    assert "`softmax` null rate" not in lines[0]
    assert lines[3].startswith("| word salad | **0.988** | 0.600 |")
    assert lines[-1].startswith("`noise|softmax`")


def moments(layers: int) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "heads": [[0.5 + 0.01 * step, 0.2]] * layers,
            "layers": [0.5 + 0.02 * layer for layer in range(layers)],
            "null_rate": 0.61,
            "coverage": 0.8,
            "cross_entropy": 0.99,
            "clean": 0.1,
            "noisy": 0.35,
        }
        for step in (10, 20)
    ]


def test_many_runs_stand_four_in_a_row():
    runs = [{"run": f"runs/null/{n}", "signature": "s", "moments": moments(3)} for n in range(11)]
    with drawing():
        panels = draw_over_time({"runs": runs}).axes
    rows = [panel.get_subplotspec().rowspan.start for panel in panels if panel.get_visible()]
    assert rows == [0] * 4 + [1] * 4 + [2] * 3


def test_curves(tmp_path: Path):
    runs = [{"run": f"runs/null/{name}", "signature": "s", "moments": moments(n)} for n, name in enumerate("abcd", 1)]
    table = ends_table({"runs": runs}).split("\n")
    assert table[3] == "| b | 0.610 | 0.520 | 0.200 | 0.800 | 0.990 | 10% | 35% |"
    assert table[6:] == ["", "`s`  "]
    with drawing():
        svg, png = save(draw_over_time({"runs": runs}), tmp_path, "curves")
    assert svg.stat().st_size > 5000
    assert png.stat().st_size > 5000
