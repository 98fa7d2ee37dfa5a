"""Words of raw text, and the pieces that belong to them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.text.words import Span, blank_separated, pieces_of_words, split_words, word_texts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t\u00a0", []),
        ("Das Haus, ja!", ["Das", "Haus", ",", "ja", "!"]),
        ("don't 3.5 well-known", ["don't", "3.5", "well-known"]),
        ("don\u2019t", ["don\u2019t"]),
        ("'quoted' end.", ["'", "quoted", "'", "end", "."]),
        ("a--b ...", ["a", "-", "-", "b", ".", ".", "."]),
        ("1,000 €", ["1", ",", "000", "€"]),
        ("snake_case", ["snake_case"]),
        ("cafe\u0301 nai\u0308ve!", ["cafe\u0301", "nai\u0308ve", "!"]),  # accents as characters of their own
        ("हिन्दी में।", ["हिन्दी", "में", "।"]),  # vowel signs are no letters for the module re
        ("می\u200cدمم.", ["می\u200cدمم", "."]),  # a joiner of width zero
        ("Haus\u0301, ja", ["Haus\u0301", ",", "ja"]),
        ("\u0301a", ["\u0301", "a"]),
        ("cafe\u0301-bar, n\u0303't", ["cafe\u0301-bar", ",", "n\u0303't"]),
        ("❤\ufe0f!", ["❤\ufe0f", "!"]),  # with the mark that asks for colours
        ("你好。", ["你好", "。"]),
        ("😀😀", ["😀", "😀"]),
    ],
)
def test_our_own_split(text: str, words: list[str]) -> None:
    assert word_texts(text, split_words(text)) == words


def test_blank_separated_leaves_tokens_as_they_are() -> None:
    text = " Das  Haus , do n't\t!"
    assert word_texts(text, blank_separated(text)) == ["Das", "Haus", ",", "do", "n't", "!"]


@given(st.text())
def test_words_cover_all_but_blanks_in_order(text: str) -> None:
    for words in (split_words(text), blank_separated(text)):
        assert all(start < end for start, end in words)
        assert all(left.end <= right.start for left, right in itertools.pairwise(words))
        assert "".join(word_texts(text, words)) == "".join(text.split())


def spans(gaps: list[tuple[int, int]]) -> list[Span]:
    """Spans in order, from (blanks before, length)."""
    found: list[Span] = []
    end = 0
    for gap, length in gaps:
        found.append(Span(end + gap, end + gap + length))
        end += gap + length
    return found


GAPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=8)


@given(GAPS, GAPS)
def test_pieces_and_words_share_a_character(
    piece_gaps: list[tuple[int, int]], word_gaps: list[tuple[int, int]]
) -> None:
    pieces, words = spans(piece_gaps), spans(word_gaps)
    expected = [[p for p, piece in enumerate(pieces) if set(range(*piece)) & set(range(*word))] for word in words]
    assert pieces_of_words(pieces, words) == expected


def test_bytes_of_one_character_are_pieces_of_the_same_word() -> None:
    pieces = [Span(0, 1), Span(0, 1), Span(1, 2), Span(1, 2)]
    assert pieces_of_words(pieces, [Span(0, 1), Span(1, 2)]) == [[0, 1], [2, 3]]
    assert pieces_of_words(pieces, [Span(0, 2)]) == [[0, 1, 2, 3]]


def test_a_piece_may_straddle_and_a_word_may_have_none() -> None:
    # "don't": pieces "don" and "'t", words of the caller "do" and "n't".
    assert pieces_of_words([Span(0, 3), Span(3, 5)], [Span(0, 2), Span(2, 5)]) == [[0], [0, 1]]
    assert pieces_of_words([Span(0, 2)], [Span(0, 2), Span(3, 4)]) == [[0], []]
