"""Byte-pair encoding: exact round trips, spans, dropout, files."""

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from rela.text.subwords import NUM_BYTES, Merges, Subwords, merge_with_dropout
from rela.text.vocabulary import BOS, EOS, PAD, SPECIAL_PIECES
from rela.text.words import Span, blank_separated, pieces_of_words, split_words

TEXTS = ["Das Haus, das alte Haus, steht hier.", "I don't know, don't ask.", "naïve Straße €5 你好 😀😀"] * 3
SPECIAL = len(SPECIAL_PIECES)


@cache
def trained(merges: int = 120) -> Subwords:
    return Subwords.train(TEXTS, merges)


TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.text("Das Hu,don't'é😀 \n", max_size=30)


class TestRoundTrip:
    @given(TEXT)
    @example("")
    @example(" ")
    @example("   leading and trailing  ")
    @example("\x00\r\n\t\u2028\ufeff\U0010ffff")
    @example("".join(SPECIAL_PIECES))
    @example("<s></s><unk>Ġ")
    def test_any_text(self, text: str) -> None:
        for merges in (0, 120):
            subwords = trained(merges)
            ids = subwords.encode(text)
            assert subwords.decode(ids) == text
            assert all(SPECIAL <= index < subwords.size for index in ids)
            assert subwords.encode_batch([text, text]) == [ids, ids]
            assert subwords.encode_with_spans(text).ids == ids

    @given(TEXT, st.floats(0, 1), st.integers(0, 9))
    def test_with_dropout(self, text: str, probability: float, seed: int) -> None:
        ids = trained().encode_with_dropout(text, probability, np.random.default_rng(seed))
        assert trained().decode(ids) == text

    @given(TEXT)
    def test_spans_follow_from_the_bytes_of_pieces(self, text: str) -> None:
        subwords = trained()
        encoded = subwords.encode_with_spans(text)
        character_of_byte = [place for place, sign in enumerate(text) for _ in sign.encode()]
        expected: list[Span] = []
        at = -1  # the blank before the text
        for index in encoded.ids:
            length = len(subwords._names[index])  # pyright: ignore[reportPrivateUsage] (one letter for each byte)
            covered = character_of_byte[max(at, 0) : at + length]
            expected.append(Span(covered[0], covered[-1] + 1) if covered else Span(0, 0))
            at += length
        assert encoded.spans == expected

    @given(st.lists(st.integers(0, trained().size - 1)))
    def test_spans_of_any_pieces(self, ids: list[int]) -> None:
        """Of ids that no text encodes to: half characters, special ones, blanks. Spans follow each other."""
        subwords = trained()
        text, spans = subwords.decode_with_spans(ids)
        assert text == subwords.decode(ids)
        assert len(spans) == len(ids)
        covered = {place for span in spans for place in range(*span)}
        assert covered == set(range(len(text)))
        real = [span for index, span in zip(ids, spans, strict=True) if index >= SPECIAL]
        assert all(a.start <= b.start and a.end <= b.end for a, b in itertools.pairwise(real))

    @given(TEXT)
    def test_spans_of_pieces_have_the_words_of_the_text(self, text: str) -> None:
        subwords = trained()
        encoded, words = subwords.encode_with_spans(text), split_words(text)
        decoded = subwords.decode_with_spans(encoded.ids)
        assert decoded.text == text
        assert pieces_of_words(decoded.spans, words) == pieces_of_words(encoded.spans, words)

    def test_special_ids_and_broken_characters(self) -> None:
        subwords = trained(0)
        ids = subwords.encode("é")
        assert subwords.decode([BOS, *ids, EOS, PAD]) == "é"
        assert subwords.decode(ids[:-1]) == "\ufffd"
        assert subwords.decode([]) == ""
        assert subwords.pieces([BOS, *ids, EOS]) == ["⟨s⟩", " ", "\ufffd", "\ufffd", "⟨/s⟩"]
        assert subwords.decode(np.array(ids).tolist()) == "é"

    @pytest.mark.parametrize("wrong", [-1, 10**6])
    def test_ids_of_another_vocabulary(self, wrong: int) -> None:
        for method in (trained().decode, trained().pieces):
            with pytest.raises(ValueError, match=f"expected ids from 0 to {trained().size - 1}, got {wrong}; take"):
                method([5, wrong])

    @pytest.mark.parametrize("text", ["a\ud800", "\udfff", "ok \udce4 ok"])
    def test_a_lone_surrogate_is_a_clear_error(self, text: str) -> None:
        generator = np.random.default_rng(1)
        encoders: list[Callable[[str], object]] = [
            trained().encode,
            trained().encode_with_spans,
            lambda text: trained().encode_batch(["fine", text]),
            lambda text: trained().encode_with_dropout(text, 0.1, generator),
            lambda text: Subwords.train(["fine", text], 5),
        ]
        for encode in encoders:
            with pytest.raises(
                ValueError, match=r"expected text .* UTF-8, got the lone surrogate .*; replace"
            ) as caught:
                encode(text)
            assert caught.type is ValueError


class TestTraining:
    def test_sizes(self) -> None:
        assert trained(0).size == SPECIAL + NUM_BYTES
        assert trained(0).num_merges == 0
        assert trained(30).num_merges == 30
        few = Subwords.train(["aa"], 1000)
        assert 0 < few.num_merges < 5  # no more pairs to merge
        assert Subwords.train([], 10).num_merges == 0
        with pytest.raises(ValueError, match="merges: expected 0 or more, got -1"):
            Subwords.train(["a"], -1)

    def test_the_same_text_gives_the_same_merges(self) -> None:
        assert Subwords.train(TEXTS, 120).to_json() == Subwords.train(iter(TEXTS), 120).to_json()

    def test_a_word_has_the_same_pieces_everywhere(self) -> None:
        alone, inside = trained().encode("Haus"), trained().encode("Das Haus")
        assert inside[-len(alone) :] == alone
        assert trained().pieces(alone) == [" Haus"]

    def test_no_piece_is_longer_than_32_bytes(self) -> None:
        subwords = Subwords.train(["x" * 500] * 3, 200)
        assert 16 <= max(len(piece) for piece in subwords.pieces(range(SPECIAL, subwords.size))) <= 32

    def test_an_error_in_the_texts_gets_through(self) -> None:
        def texts():
            yield "a b"
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Subwords.train(texts(), 5)


class TestWords:
    def test_punctuation_on_its_own(self) -> None:
        text = "Haus, don't"
        encoded = trained().encode_with_spans(text)
        assert trained().pieces(encoded.ids) == [" Haus", ",", " don", "'t"]
        assert pieces_of_words(encoded.spans, split_words(text)) == [[0], [1], [2, 3]]
        assert pieces_of_words(encoded.spans, blank_separated(text)) == [[0, 1], [2, 3]]

    def test_words_of_the_caller_that_pieces_straddle(self) -> None:
        encoded = trained().encode_with_spans("don't")  # " don" and "'t"
        assert encoded.spans == [Span(0, 3), Span(3, 5)]
        assert pieces_of_words(encoded.spans, [Span(0, 2), Span(2, 5)]) == [[0], [0, 1]]

    def test_the_blank_before_the_text_belongs_to_no_word(self) -> None:
        encoded = trained(0).encode_with_spans("é b")
        assert pieces_of_words(encoded.spans, split_words("é b")) == [[1, 2], [4]]

    @given(TEXT)
    def test_every_word_has_pieces(self, text: str) -> None:
        encoded = trained().encode_with_spans(text)
        assert all(pieces_of_words(encoded.spans, blank_separated(text)))


def merge_naively(symbols: list[str], ranks: dict[tuple[str, str], int]) -> list[str]:
    """Byte-pair encoding by its definition: the best merge, leftmost first, until there is none."""
    while True:
        pairs = list(itertools.pairwise(symbols))
        known = [pair for pair in pairs if pair in ranks]
        if not known:
            return symbols
        place = pairs.index(min(known, key=ranks.__getitem__))
        symbols = [*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :]]


def drop_naively(
    ids: list[int], ranks: dict[tuple[int, int], tuple[int, int]], probability: float, generator: np.random.Generator
) -> list[int]:
    """Dropout by its definition: of all merges by rank and place, each time, the first that a draw does not drop."""
    while True:
        possible = [(*ranks[pair], place) for place, pair in enumerate(itertools.pairwise(ids)) if pair in ranks]
        for _, made, place in sorted(possible, key=lambda merge: (merge[0], merge[2])):
            if generator.random() >= probability:
                ids = [*ids[:place], made, *ids[place + 2 :]]
                break
        else:
            return ids


class TestDropout:
    @given(TEXT)
    def test_none_at_zero_and_bytes_at_one(self, text: str) -> None:
        generator = np.random.default_rng(1)
        assert trained().encode_with_dropout(text, 0, generator) == trained().encode(text)
        assert trained().encode_with_dropout(text, 1, generator) == trained(0).encode(text)

    @given(st.text("ab", max_size=12), st.permutations(["ab", "aa", "ba", "bb", "aab", "aba", "abab", "bba"]))
    def test_against_the_definition(self, word: str, made: list[str]) -> None:
        names = ["a", "b", *made]
        ranks = {
            (name[:cut], name[cut:]): rank
            for rank, (name, cut) in enumerate((name, cut) for name in made for cut in range(1, len(name)))
            if name[:cut] in names and name[cut:] in names
        }
        ids = {name: number for number, name in enumerate(names)}
        merges = Merges(
            {"a": 0, "b": 1},
            {(ids[left], ids[right]): (rank, ids[left + right]) for (left, right), rank in ranks.items()},
        )
        merged = merge_with_dropout(word, merges, 0, np.random.default_rng(1))
        assert [names[index] for index in merged] == merge_naively(list(word), ranks)

    @given(st.text("ab", max_size=24), st.floats(0, 1), st.integers(0, 1000))
    def test_the_same_draws_as_naively(self, word: str, probability: float, seed: int) -> None:
        made = ["ab", "aa", "ba", "abab", "aab", "ba" + "ab", "abaab", "aaa", "aaaa"]
        ids = {name: number for number, name in enumerate(["a", "b", *made])}
        halves = [(name[:cut], name[cut:]) for name in made for cut in range(1, len(name))]
        known = [(left, right) for left, right in halves if left in ids and right in ids]
        ranks = {(ids[left], ids[right]): (rank, ids[left + right]) for rank, (left, right) in enumerate(known)}
        merges = Merges({"a": 0, "b": 1}, ranks)
        fast, naive = np.random.default_rng(seed), np.random.default_rng(seed)
        merged = merge_with_dropout(word, merges, probability, fast)
        assert merged == drop_naively([ids[letter] for letter in word], ranks, probability, naive)
        assert fast.random() == naive.random()  # as many draws, too

    def test_long_words_take_no_square_of_their_length(self) -> None:
        merges = Merges({"a": 0, "b": 1}, {(0, 1): (0, 2), (2, 2): (1, 3), (3, 3): (2, 4)})

        def seconds(length: int) -> float:
            times: list[float] = []
            for _ in range(3):
                start = time.process_time()
                merge_with_dropout("ab" * length, merges, 0.1, np.random.default_rng(1))
                times.append(time.process_time() - start)
            return min(times)

        assert seconds(16_000) < 40 * seconds(1_000)  # 16 times as long; squared, 256 times

    def test_how_often_each_split_comes(self) -> None:
        # "abc" with merges ab, then abc: the first is done with probability 1 - p, and then the second with 1 - p.
        merges = Merges({"a": 0, "b": 1, "c": 2}, {(0, 1): (0, 3), (3, 2): (1, 4)})
        generator = np.random.default_rng(7)
        counts = Counter(tuple(merge_with_dropout("abc", merges, 0.3, generator)) for _ in range(4000))
        for split, share in {(0, 1, 2): 0.3, (3, 2): 0.7 * 0.3, (4,): 0.7 * 0.7}.items():
            assert abs(counts[split] / 4000 - share) < 0.03

    def test_seeds(self) -> None:
        text = "Das alte Haus, don't ask."

        def drawn(seed: int) -> list[int]:
            return trained().encode_with_dropout(text, 0.5, np.random.default_rng(seed))

        assert drawn(1) == drawn(1)
        assert len({tuple(drawn(seed)) for seed in range(10)}) > 5
        assert len(trained().encode(text)) < np.mean([len(drawn(seed)) for seed in range(20)]) < len(text.encode()) + 1

    @pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
    def test_probabilities(self, probability: float) -> None:
        with pytest.raises(ValueError, match=f"probability: expected 0 to 1, got {probability}"):
            trained().encode_with_dropout("a", probability, np.random.default_rng(1))


class TestFiles:
    def test_saved_and_loaded(self, tmp_path: Path) -> None:
        file = tmp_path / "tokenizer.json"
        file.write_text(trained().to_json(), encoding="utf-8")
        loaded = Subwords.load(file)
        assert loaded.to_json() == trained().to_json()
        assert loaded.encode("Das Haus 😀") == trained().encode("Das Haus 😀")

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"model": 3}'])
    def test_no_tokenizer(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "tokenizer.json"
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"tokenizer.json: expected a tokenizer.json, got a file that does not"):
            Subwords.load(file)

    def test_a_cut_file(self, tmp_path: Path) -> None:
        file = tmp_path / "tokenizer.json"
        whole = trained().to_json()
        for share in (0.1, 0.5, 0.99):
            file.write_text(whole[: int(share * len(whole))], encoding="utf-8")
            with pytest.raises(ValueError, match=r"does not parse .*; prepare the text anew"):
                Subwords.load(file)

    def test_a_foreign_tokenizer(self, tmp_path: Path) -> None:
        file = tmp_path / "tokenizer.json"
        Tokenizer(models.WordLevel({"a": 0}, "a")).save(str(file))
        with pytest.raises(ValueError, match="expected a tokenizer that `rela prepare` made, whose piece 0 is '⟨pad⟩'"):
            Subwords.load(file)

    def test_ours_with_another_decoder(self, tmp_path: Path) -> None:
        file = tmp_path / "tokenizer.json"
        tokenizer = Tokenizer.from_str(trained().to_json())
        tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
        tokenizer.save(str(file))
        with pytest.raises(ValueError, match="got one with other settings of decoder; prepare"):
            Subwords.load(file)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            Subwords.load(tmp_path / "none.json")

    def test_special_pieces_come_first(self) -> None:
        vocabulary = json.loads(trained().to_json())["model"]["vocab"]
        assert [vocabulary[piece] for piece in SPECIAL_PIECES] == [PAD, BOS, EOS]
        assert sorted(vocabulary.values()) == list(range(trained().size))
