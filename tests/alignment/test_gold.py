"""Gold links from files: marks, bases, directions, and what is refused with its line."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.alignment.errors import GoldLinks
from rela.alignment.gold import read_gold
from rela.alignment.pairs import EncodedPair, Side


def write(folder: Path, text: str, name: str = "dev.sure") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def pair(line: int, source: int, target: int) -> EncodedPair:
    return EncodedPair(line, Side(["s"] * source, [], [[]] * source), Side(["t"] * target, [], [[]] * target))


def test_one_file_without_marks(tmp_path: Path):
    gold = read_gold(write(tmp_path, "0-0 1-2\n\n3-1"))
    assert list(gold) == [
        GoldLinks({(0, 0), (1, 2)}, {(0, 0), (1, 2)}),
        GoldLinks(set(), set()),
        GoldLinks({(3, 1)}, {(3, 1)}),
    ]
    assert (gold.pairs, gold.empty, gold.sure_links, gold.possible_links) == (3, 1, 3, 3)
    assert gold.signature() == "gold:dev|base:0|flipped:no|gold-pairs:3|sure:3|possible:3"


@pytest.mark.parametrize("mark", ["p", "?"])
def test_one_file_with_marks(tmp_path: Path, mark: str):
    gold = read_gold(write(tmp_path, f"0-0 1{mark}2 1-1\n"))
    assert list(gold) == [GoldLinks({(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2)})]


def test_two_files(tmp_path: Path):
    """A sure link is possible, whether the other file repeats it or not; there, marks make no difference."""
    sure, possible = write(tmp_path, "0-0 1-1\n2-2\n"), write(tmp_path, "1-1 1p2 3-3\n\n", "dev.possible")
    gold = read_gold(sure, possible)
    assert list(gold) == [
        GoldLinks({(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2), (3, 3)}),
        GoldLinks({(2, 2)}, {(2, 2)}),
    ]
    assert gold.signature() == "gold:dev|base:0|flipped:no|gold-pairs:2|sure:3|possible:5"
    assert gold.to_json() == {
        "name": "dev",
        "sure": str(sure),
        "possible": str(possible),
        "base": 0,
        "flipped": False,
        "pairs": 2,
        "sure_links": 3,
        "possible_links": 5,
    }


def test_counted_from_one_and_flipped(tmp_path: Path):
    gold = read_gold(write(tmp_path, "1-1 3p2\n"), base=1, flipped=True)
    assert list(gold) == [GoldLinks({(0, 0)}, {(0, 0), (1, 2)})]
    assert gold.signature() == "gold:dev|base:1|flipped:yes|gold-pairs:1|sure:1|possible:2"


@given(st.sets(st.tuples(st.integers(0, 99), st.integers(0, 99))), st.booleans(), st.sampled_from([0, 1]))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, links: set[tuple[int, int]], flipped: bool, base: int
):
    written = [(j, i) if flipped else (i, j) for i, j in links]
    text = " ".join(f"{i + base}-{j + base}" for i, j in written)
    path = write(tmp_path_factory.mktemp("gold"), f"{text}\n")
    assert list(read_gold(path, base=base, flipped=flipped)) == [GoldLinks(links, links)]


def test_packed(tmp_path: Path):
    (tmp_path / "dev.sure.gz").write_bytes(gzip.compress(b"0-1\r\n"))
    gold = read_gold(tmp_path / "dev.sure.gz")
    assert (next(gold).sure, gold.name) == ({(0, 1)}, "dev")


@pytest.mark.parametrize(
    ("text", "base", "message"),
    [
        ("0-0\n0-0 1:2\n", 0, r"dev\.sure, line 2: expected links such as 0-0, .* got '1:2'"),
        ("0-0 -1-2\n", 0, r"line 1: .*got '-1-2'"),
        ("0-0 1-٣\n", 0, "line 1: .*got '1-٣'"),
        ("1-1\n\n1-1 0-1\n", 1, r"line 3: expected words counted from 1, got '0-1'; does the file count from 0"),
        ("0-0\0\n", 0, "line 1: expected word links, got a NUL character"),
    ],
)
def test_refused(tmp_path: Path, text: str, base: int, message: str):
    with pytest.raises(ValueError, match=message):
        list(read_gold(write(tmp_path, text), base=base))


def test_other_bases(tmp_path: Path):
    with pytest.raises(ValueError, match="base: expected 0 or 1, got 2"):
        read_gold(write(tmp_path, ""), base=2)


@pytest.mark.parametrize(
    ("sure", "possible", "message"),
    [
        (
            "0-0\n",
            "0-0\n1-1\n",
            r"dev\.possible, line 2: expected as many lines as in .*dev\.sure, got more than its 1",
        ),
        ("0-0\n1-1\n", "0-0\n", r"dev\.sure, line 2: expected as many lines as in .*dev\.possible"),
    ],
)
def test_files_of_unequal_length(tmp_path: Path, sure: str, possible: str, message: str):
    with pytest.raises(ValueError, match=message):
        list(read_gold(write(tmp_path, sure), write(tmp_path, possible, "dev.possible")))


class TestBesideText:
    def test_by_line(self, tmp_path: Path):
        """Pairs that were left out of the text leave their links out."""
        gold = read_gold(write(tmp_path, "0-0\n5-5\n1-0\n"))
        found = list(gold.of_pairs([pair(1, 1, 1), pair(3, 2, 1)]))
        assert [(one.line, links.sure) for one, links in found] == [(1, {(0, 0)}), (3, {(1, 0)})]
        gold.check_end(3)

    @pytest.mark.parametrize("link", ["2-0", "0-3", "1p7"])
    def test_outside_the_sentence(self, tmp_path: Path, link: str):
        gold = read_gold(write(tmp_path, f"1-2\n{link}\n"))
        with pytest.raises(ValueError, match=r"dev\.sure, line 2: expected links of 2 source words and 3 target words"):
            list(gold.of_pairs([pair(1, 2, 3), pair(2, 2, 3)]))

    def test_too_few_lines(self, tmp_path: Path):
        with pytest.raises(ValueError, match=r"dev\.sure: .*got none for line 2: the file has 1 lines"):
            list(read_gold(write(tmp_path, "0-0\n")).of_pairs([pair(1, 1, 1), pair(2, 1, 1)]))

    def test_of_the_first_lines(self, tmp_path: Path):
        gold = read_gold(write(tmp_path, "0-0\n1-0\n"))
        pairs = iter([pair(line, 2, 1) for line in range(1, 9)])
        assert [(one.line, links.sure) for one, links in gold.of_first(pairs)] == [(1, {(0, 0)}), (2, {(1, 0)})]
        assert next(pairs).line == 3  # no more was read than is needed
        with pytest.raises(ValueError, match=r"dev\.sure, line 2: .*the text, which has 1 lines, got more"):
            list(read_gold(tmp_path / "dev.sure").of_first([pair(1, 2, 1)]))
        with pytest.raises(ValueError, match=r"dev\.sure, line 2: expected links of 1 source words"):
            list(read_gold(tmp_path / "dev.sure").of_first([pair(1, 1, 1), pair(2, 1, 1)]))

    def test_too_many_lines(self, tmp_path: Path):
        gold = read_gold(write(tmp_path, "0-0\n0-0\n0-0\n"))
        list(gold.of_pairs([pair(1, 1, 1)]))
        with pytest.raises(ValueError, match=r"dev\.sure: expected 1 lines, as many as the text has, got 3"):
            gold.check_end(1)

    def test_lines_are_read_as_they_are_asked_for(self, tmp_path: Path):
        gold = read_gold(write(tmp_path, "0-0\nnonsense\n"))
        assert next(gold).sure == {(0, 0)}
