"""How strange texts look: by the definition, in any script, and kept in a file without loss."""

import numpy as np
import pytest

from rela.filtering.letters import Letters
from rela.filtering.quality import fit_quality

GERMAN = ["der Hund läuft über die Wiese", "eine Katze schläft auf dem Sofa", "zwei Männer stehen vor einem Haus"] * 5
FRENCH = ["un chien court dans le pré", "deux hommes sont debout devant une maison"]


def test_another_language_looks_strange():
    letters = Letters.learn(GERMAN)
    own = letters.strangeness(["ein Hund steht vor dem Haus", "die Katze läuft"])
    assert own.max() < letters.strangeness(FRENCH).min()


def test_a_text_by_itself_or_among_others():
    letters = Letters.learn(GERMAN)
    texts = ["a", "ä", "日本語", "der Hund", "x" * 3000]
    together = letters.strangeness(texts)
    np.testing.assert_allclose(together, [letters.strangeness([text])[0] for text in texts])
    assert np.isfinite(together).all()


def test_by_definition():
    """Three bytes of which there are n in N letters of B buckets cost log((N + B) / (n + 1)), but at most what three in
    four letters cost less than; 15 more of the usual cost stand beside them."""
    letters = Letters.learn(["aaaa"])  # " aa", "aaa" twice, "aa "
    size = len(letters.costs)
    usual = np.mean([np.log((4 + size) / n) for n in (2, 3, 3, 2)])
    assert letters.usual == pytest.approx(usual, rel=1e-3)
    assert letters.strangeness(["aaaa"])[0] == pytest.approx(0, abs=1e-9)
    rare = np.log((4 + size) / 2) - usual
    assert letters.strangeness(["bbbb", "b" * 100]).tolist() == pytest.approx(
        [rare * 4 / 19, rare * 100 / 115], rel=0.02
    )


def test_a_name_is_less_strange_than_another_language():
    letters = Letters.learn(GERMAN)
    assert letters.strangeness(["eine Katze schläft auf dem Zwyxqoph"])[0] < letters.strangeness(FRENCH).min()


def test_numbers_and_signs_are_of_no_language():
    letters = Letters.learn([*GERMAN, "1.2.2001 (C5-0348/1999)"])
    assert letters.strangeness(["16.11.2001", "(13760/1999) - 5-0348"]).tolist() == [0, 0]
    assert Letters.learn(["1", "2"]).strangeness(["3", "drei"])[0] == 0


def test_round_trip():
    letters = Letters.learn(GERMAN)
    again = Letters.from_json(letters.to_json())
    np.testing.assert_array_equal(again.costs, letters.costs)
    assert again.usual == letters.usual
    with pytest.raises(ValueError, match="expected 16384 numbers, got 1"):
        Letters.from_json({"usual": 1.0, "costs": "AAA="})


def test_the_price_of_strangeness_is_fixed():
    """It is not learned: a corpus that has such texts, and noise that has none, do not make them good."""
    generator = np.random.default_rng(0)
    names = ("cross_entropy", "strange.target")
    corpus, noise = generator.normal(0, 1, (400, 2)), generator.normal([3, 0], 1, (400, 2))
    corpus[:20, 1] += 8
    found = fit_quality(names, corpus, noise, [])
    plain, strange = found.logits(np.array([[0.0, 0.0], [0.0, 4.5]])).tolist()
    assert plain - strange == pytest.approx(2.0 * ((4.5 - found.centre[1]) / found.scale[1] - 2.0))
    assert found.quality(corpus[:20]).max() < 0.5
    corpus[:80, 1] = 8.0  # a fifth of the corpus
    assert fit_quality(names, corpus, noise, []).scale[1] < 1.5 * found.scale[1]  # they do not make themselves usual
