"""Links of two directions in one: by hand, by properties, and as Moses' symal has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.alignment.errors import Link
from rela.alignment.symmetrise import METHODS, symmetrise

Links = set[Link]
LINKS = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)))
GDFA = "grow-diag-final-and"

SYMAL = [
    ("0 0 1 6 6", "2 0 1 1 4 3", "2-0 0-2 5-3"),
    ("0 0 4 1 3", "0 3 1 3", "3-2 0-3 2-4"),
    ("0 1 1 1 2 3 2 3", "0 3 6 6", "0-1 0-2 0-3 1-4 2-5 3-5 1-6 2-7"),
    ("0 2 4 5", "0 2 3 3 4 4 4 4", "1-1 2-2 3-2 4-3 5-3 6-3 7-3"),
    ("1 1 5 6 4 6", "2 2 4 3 2 3 6 5", "0-0 0-1 1-1 4-2 5-3 3-4 6-5"),
    ("2 0 1 4 6 6 8 8", "1 2 3 5 6 4 5 8", "1-0 0-2 3-3 5-4 4-5 7-6 7-7"),
    ("0 1 2 2 2 4 4", "1 2 3 7", "0-1 1-2 3-5 3-6"),
    ("2 3 6 5", "0 3 3 3 2 4 4", "1-0 2-1 5-2 4-3"),
    ("2 1 3 5", "0 1 2 2 2", "1-0 0-1 2-1 3-1 4-1 2-2"),
    ("0 3 4 4 4", "2 2 3 4", "0-1 1-1 2-1 2-2 3-2 3-3 3-4"),
    ("0 1 5 4", "2 3 0 2 1 3 4", "4-0 0-1 1-2 3-3"),
    ("0 1 4 3", "0 0 3 2", "0-1 3-2 2-3"),
]
"""Each target word's source word, each source word's target word (from 1; 0 is none), and what Moses' symal.cpp prints
for ``-alignment=grow -diagonal=yes -final=yes -both=yes``."""


@pytest.mark.parametrize(("of_targets", "of_sources", "expected"), SYMAL)
def test_equals_symal(of_targets: str, of_sources: str, expected: str):
    forward = {(int(source) - 1, target) for target, source in enumerate(of_targets.split()) if source != "0"}
    backward = {(source, int(target) - 1) for source, target in enumerate(of_sources.split()) if target != "0"}
    assert " ".join(f"{i}-{j}" for i, j in symmetrise(forward, backward, GDFA)) == expected


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        (set(), set(), []),
        ({(0, 0)}, {(0, 0)}, [(0, 0)]),
        ({(0, 0), (1, 1)}, {(0, 0)}, [(0, 0), (1, 1)]),  # a neighbour across a corner
        ({(0, 0), (1, 0)}, {(0, 0)}, [(0, 0), (1, 0)]),  # a neighbour with one new word
        ({(0, 0), (3, 0)}, {(0, 0)}, [(0, 0)]),  # no neighbour, and one of its words has links
        ({(0, 0), (3, 3)}, {(0, 0)}, [(0, 0), (3, 3)]),  # at last: both words have none
        ({(0, 0)}, {(1, 0)}, [(0, 0)]),  # of two such, the forward model's
        ({(1, 0)}, {(0, 0)}, [(1, 0)]),
        ({(2, 0), (0, 0)}, set(), [(0, 0)]),  # and of two of one direction, the first
    ],
)
def test_grow_diag_final_and_by_hand(forward: Links, backward: Links, expected: list[Link]):
    assert symmetrise(forward, backward, GDFA) == expected


@given(LINKS, LINKS)
def test_from_intersection_to_union(forward: Links, backward: Links):
    found = {method: symmetrise(forward, backward, method) for method in METHODS}
    assert set(found["intersection"]) == forward & backward
    assert set(found["union"]) == forward | backward
    assert forward & backward <= set(found[GDFA]) <= forward | backward
    for links in found.values():
        assert links == sorted(set(links), key=lambda link: (link[1], link[0]))


@given(LINKS, LINKS)
def test_what_grew_has_no_room_left(forward: Links, backward: Links):
    """Each link of the union that did not join has a word with links."""
    links = symmetrise(forward, backward, GDFA)
    sources, targets = {i for i, _ in links}, {j for _, j in links}
    assert all(i in sources or j in targets for i, j in forward | backward)


@given(LINKS)
def test_of_equals(links: Links):
    for method in METHODS:
        assert set(symmetrise(links, links, method)) == links
