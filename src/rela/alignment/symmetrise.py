"""Links of two models of opposite direction, made one: intersection, union, and what grows from one to the other."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection
from typing import Final, Literal

from rela.alignment.errors import Link

Method = Literal["intersection", "union", "grow-diag-final-and"]

_Point = tuple[int, int]
"""A link the other way round, target word and then source word: so they are sorted, and so neighbours are looked at."""

_NEIGHBOURS: Final = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Collection[Link], backward: Collection[Link], method: Method) -> list[Link]:
    """Both directions' links, of source and target word of the forward model, in one; by target word, then by source.

    ``grow-diag-final-and`` (Koehn, Och and Marcu 2003) begins with the intersection; then links of the union that are
    neighbours of a link, and have a word without links, join; at last come links of one direction, and of the other,
    that have no word with links. Its result depends on the order: this is that of Moses' ``symal``, which looks at
    links by target word and then by source word, and of the two directions first at the forward model's.
    """
    points = [{(target, source) for source, target in links} for links in (forward, backward)]
    return [(source, target) for target, source in METHODS[method](*points)]


def _intersection(forward: set[_Point], backward: set[_Point]) -> list[_Point]:
    return sorted(forward & backward)


def _union(forward: set[_Point], backward: set[_Point]) -> list[_Point]:
    return sorted(forward | backward)


def _grow_diag_final_and(forward: set[_Point], backward: set[_Point]) -> list[_Point]:
    points = _intersection(forward, backward)
    targets, sources = {target for target, _ in points}, {source for _, source in points}

    def join(point: _Point) -> None:
        insort(points, point)
        targets.add(point[0])
        sources.add(point[1])

    union = forward | backward
    grew = True
    while grew:
        grew = False
        place = 0
        while place < len(points):  # those that join behind this one are looked at in the same round
            target, source = points[place]
            for down, right in _NEIGHBOURS:
                point = (target + down, source + right)
                if point in union and not (point[0] in targets and point[1] in sources):
                    place += bisect_left(points, point) <= place
                    join(point)
                    grew = True
            place += 1
    for one_direction in (forward - backward, backward - forward):
        for point in sorted(one_direction):
            if point[0] not in targets and point[1] not in sources:
                join(point)
    return points


METHODS: Final[dict[Method, Callable[[set[_Point], set[_Point]], list[_Point]]]] = {
    "intersection": _intersection,
    "union": _union,
    "grow-diag-final-and": _grow_diag_final_and,
}
"""All methods by name."""
