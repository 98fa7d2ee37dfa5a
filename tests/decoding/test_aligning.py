"""Links of translations: from the pieces that the search found, by the rows that its own steps had."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tests.model.folders import text_model

from rela.alignment import naive
from rela.alignment.choice import Choice
from rela.alignment.pairs import EncodedPair, PairBatch, Side, decoded_side, encode_side
from rela.alignment.weights import visit_cross_weights
from rela.attention.heads import Heads, Observation
from rela.decoding import translator as translator_module
from rela.decoding.search import Hypothesis, SearchOptions, _Search  # pyright: ignore[reportPrivateUsage]
from rela.decoding.translator import Translator
from rela.model.transformer import Transformer, evaluating
from rela.text.vocabulary import BOS, EOS
from rela.text.worded import Wording
from rela.text.words import split_words, word_texts

TEXTS = ["the dog runs", "a cat sleeps under the small house", "green"]
BEAM = 3
RANDOM = np.random.default_rng(0)
CHOICES = [Choice(1, True), Choice(0, False), Choice(0, True, 2), Choice(1, True, 1, "any"), Choice(1, False, 3)]

Rows = dict[tuple[int, ...], np.ndarray]


def ending_translator(choice: Choice) -> Translator:
    """A random model that prefers pieces of words, and to end."""
    model, sides = text_model(scale=1.5, seed=2)
    liked = torch.full((sides.target.size,), -9.0, dtype=torch.float64)
    for piece, text in enumerate(sides.target.pieces(range(sides.target.size))):
        if text.strip().isalpha() and len(text) > 1:
            liked[piece] = 0
    liked[EOS] = 0.8
    logits = model.logits
    model.logits = lambda hidden: logits(hidden) / 6 + liked
    return Translator(model.double(), sides, alignment=choice)


@torch.inference_mode()
def search_and_watch(model: Transformer, source: list[int], layer: int) -> tuple[list[Hypothesis], Rows]:
    """A search of one sentence, and for each beginning that it went on from the weights ``[H, S]`` of that step.

    The cache follows the beams from step to step; a beginning tells whose step a row was.
    """
    seen: list[torch.Tensor] = []
    rows: Rows = {}

    def look(_: Heads, observation: Observation) -> None:
        seen.append(observation.weights)  # [1, H, beam, S]: the beams are queries of one sentence

    handle = model.attentions()["cross"][layer].register_observer(look)
    with evaluating(model):
        search = _Search(model, torch.tensor([source]), SearchOptions(beam=BEAM))
        while search.alive:
            beginnings = [tuple(tokens) for tokens in search.tokens.tolist()]
            search.advance()
            for beam, beginning in enumerate(beginnings):
                rows.setdefault(beginning, seen[-1][0, :, beam].double().numpy())
    handle.remove()
    return sorted(search.finished[0], key=lambda h: (not h.finished, -h.score)), rows


def expected_links(translator: Translator, text: str, choice: Choice) -> Iterator[list[tuple[int, int]]]:
    source = encode_side(translator.tokenizers.source, Wording().read(text))
    found, rows = search_and_watch(translator.model, [*source.ids, EOS], choice.layer)
    for hypothesis in found:
        beginnings = [(BOS, *hypothesis.pieces[:place]) for place in range(len(hypothesis.pieces) + 1)]
        if not hypothesis.finished:  # no step followed its last piece
            yield []
            continue
        weights = np.stack([rows[beginning] for beginning in beginnings], axis=1)  # [H, T, S]
        chosen = weights.mean(0) if choice.head is None else weights[choice.head]
        target = decoded_side(translator.tokenizers.target, hypothesis.pieces)
        find = naive.merged_links if choice.rule == "merged" else naive.any_links
        yield find(chosen, source.word_pieces, target.word_pieces, shifted=choice.shifted)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_rows_are_those_of_the_search(choice: Choice):
    translator = ending_translator(choice)
    compared = 0
    for text, found in zip(TEXTS, translator.translate(TEXTS, beam=BEAM, nbest=BEAM, align=True), strict=True):
        for one, links in zip((found, *found.alternatives), expected_links(translator, text, choice), strict=True):
            if one.finished:
                assert list(one.alignment or ()) == links
                compared += 1
    assert compared >= 6


def test_pieces_that_encoding_the_text_would_not_give(monkeypatch: pytest.MonkeyPatch):
    """A search may spell a word in letters."""
    translator = ending_translator(Choice(1, True, 0))
    model, sides = translator.model, translator.tokenizers
    letters = [piece for letter in " der Hund" for piece in sides.target.encode_with_dropout(letter, 1.0, RANDOM)[1:]]
    assert sides.target.decode(letters) == "der Hund"
    assert letters != sides.target.encode("der Hund")
    monkeypatch.setattr(translator_module, "beam_search", lambda *_: [[Hypothesis(letters, -1.0, -1.0, True)]])  # pyright: ignore[reportUnknownLambdaType]
    (found,) = translator.translate(["the dog runs"], align=True)
    source = encode_side(sides.source, Wording().read("the dog runs"))
    seen: list[np.ndarray] = []
    batch = PairBatch([EncodedPair(1, source, Side([], letters, []))])
    visit_cross_weights(model, batch, [1], lambda _, weights: seen.append(weights[0, 0].double().numpy()))
    words = [[1, 2, 3], [5, 6, 7, 8]]  # 0 and 4 are blanks
    assert decoded_side(sides.target, letters).word_pieces == words
    assert list(found.alignment or ()) == naive.merged_links(seen[0], source.word_pieces, words, shifted=True)


def test_the_last_word_shifted_has_the_row_of_the_eos_step():
    translator = ending_translator(Choice(1, True))
    model, sides = translator.model, translator.tokenizers
    for text, found in zip(TEXTS, translator.translate(TEXTS, beam=BEAM, align=True), strict=True):
        if not found.finished:
            continue
        source = encode_side(sides.source, Wording().read(text))
        hypotheses, rows = search_and_watch(model, [*source.ids, EOS], 1)
        target = decoded_side(sides.target, hypotheses[0].pieces)
        if target.word_pieces[-1] != [len(target.ids) - 1]:
            continue  # the last word has more pieces than the last
        eos_step = rows[(BOS, *hypotheses[0].pieces)].mean(0)
        weights = [sum(eos_step[piece] for piece in pieces) for pieces in source.word_pieces]
        last = [link for link in found.alignment or () if link[1] == len(target.words) - 1]
        assert last == ([(int(np.argmax(weights)), len(target.words) - 1)] if max(weights) > 0 else [])
        return
    pytest.fail("expected a translation whose last word is one piece")


def test_words_are_those_of_the_text():
    translator = ending_translator(Choice(1, True))
    for found in translator.translate(TEXTS, beam=BEAM, align=True):
        words = word_texts(found.text, split_words(found.text))
        assert all(target < len(words) for _, target in found.alignment or ())
    assert translator.translate([" "], align=True)[0].alignment == ()
