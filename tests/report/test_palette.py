"""The looks of models: the same on the page and in the figures, and clear on any ground."""

import colorsys
import re
from importlib import resources

import pytest

from rela.report.figures.style import line_styles
from rela.report.palette import MARKERS, looks_of

NAMES = ("softmax", "sparsemax", "entmax15", "rela-g", "rela-i", *(f"model {number}" for number in range(8)))


def channels(color: str) -> list[float]:
    return [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines have it."""

    def luminance(color: str) -> float:
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels(color)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def asset(name: str) -> str:
    return resources.files("rela.report").joinpath("assets", name).read_text(encoding="utf-8")


def test_colours_are_clear_in_both_themes():
    grounds = re.findall(r"--page: (#\w{6})", asset("page.css"))
    assert len(set(grounds)) == 2
    for look in looks_of(NAMES).values():
        assert contrast(look.light, grounds[0]) >= 3
        assert contrast(look.dark, grounds[1]) >= 3


def test_a_colour_is_the_same_one_everywhere():
    for look in looks_of(NAMES).values():
        hue, _, saturation = colorsys.rgb_to_hls(*channels(look.color))
        for other in (look.light, look.dark):
            turned = abs(hue - colorsys.rgb_to_hls(*channels(other))[0])
            assert saturation == 0 or min(turned, 1 - turned) < 0.04


def test_figures_have_the_same():
    styles = line_styles(NAMES)
    for name, look in looks_of(NAMES).items():
        assert (styles[name].color, styles[name].marker) == (look.color, look.marker)
        assert styles[name].dashes == ((0, look.dashes) if look.dashes else "solid")


@pytest.mark.parametrize("marker", MARKERS)
def test_the_page_can_draw_every_marker(marker: str):
    table = asset("marks.js").partition("const MARKS = {")[2].partition("};")[0]
    assert re.search(rf'^  "?{re.escape(marker)}"?: ', table, re.MULTILINE)
