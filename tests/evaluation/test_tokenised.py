"""Tokenised BLEU: values by hand, values that multi-bleu.perl printed, and a naive version by another route."""

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
import sacrebleu
import sacremoses
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from tests.evaluation.corpora import HYPOTHESIS, REFERENCE

from rela._version import __version__
from rela.evaluation import BleuScore, tokenised_bleu
from rela.evaluation.tokenisers import split_at_blanks, tokeniser_for


def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False) -> BleuScore:
    return tokenised_bleu(hypotheses, references, language=None, lowercase=lowercase, num_bootstrap=0)


@pytest.mark.parametrize(
    ("hypotheses", "references", "precisions", "penalty", "lengths"),
    [
        (["a b c d e"], [["a b c d f"]], (4 / 5, 3 / 4, 2 / 3, 1 / 2), 1, (5, 5)),
        (["a b c d"], [["a b c d e"]], (1, 1, 1, 1), math.exp(1 - 5 / 4), (4, 5)),
        (["the the the the the the the"], [["the cat is on the mat"]], (2 / 7, 0, 0, 0), 1, (7, 6)),
        # matches are counted over the corpus, not sentence by sentence
        (["a b c d e", "x"], [["a b c d e", "y"]], (5 / 6, 1, 1, 1), 1, (6, 6)),
        # too short for any 4-gram: 0, although all is right
        (["a b c"], [["a b c"]], (1, 1, 1, 0), 1, (3, 3)),
        # two references equally close: the shorter counts, in either order
        (["a b c d e"], [["a b c d e f"], ["a b c d"]], (1, 1, 1, 1), 1, (5, 4)),
        (["a b c d e"], [["a b c d"], ["a b c d e f"]], (1, 1, 1, 1), 1, (5, 4)),
        # the closest reference, not the shortest
        (["a b c d e"], [["a"], ["a b c d e f"]], (1, 1, 1, 1), math.exp(1 - 6 / 5), (5, 6)),
        # clipped by the one reference that has it most often, not by their sum
        (["a a a a a"], [["a a x x x"], ["a x a x x"]], (2 / 5, 1 / 4, 0, 0), 1, (5, 5)),
        # n-grams that are in different references all match
        (["a b c d"], [["a b x x"], ["x x c d"]], (1, 2 / 3, 0, 0), 1, (4, 4)),
        ([""], [["a"]], (0, 0, 0, 0), 0, (0, 1)),
        (["a"], [[""]], (0, 0, 0, 0), 0, (1, 0)),
        ([""], [[""]], (0, 0, 0, 0), 0, (0, 0)),
    ],
)
def test_values_by_hand(
    hypotheses: list[str],
    references: list[list[str]],
    precisions: tuple[float, ...],
    penalty: float,
    lengths: tuple[int, int],
) -> None:
    found = score(hypotheses, references)
    assert found.precisions == pytest.approx([100 * precision for precision in precisions])
    assert found.brevity_penalty == pytest.approx(penalty)
    assert (found.hypothesis_length, found.reference_length) == lengths
    assert found.score == pytest.approx(100 * penalty * math.prod(precisions) ** 0.25)


# Found with perl 5.36 and multi-bleu.perl of Moses, whose last line was changed to print more digits.
@pytest.mark.parametrize(
    ("hypotheses", "references", "lowercase", "printed"),
    [
        (
            ["the cat sat on the mat .", "he paid 3,500 euros for it ."],
            [["the cat sat on a mat .", "he had paid 3,500 euros for it ."]],
            False,
            "BLEU = 62.947491, 92.8571/75.0000/60.0000/50.0000 (BP=0.931063, ratio=0.933333, hyp_len=14, ref_len=15)",
        ),
        (
            ["The Cat sat on the mat", "Ärger über Übel"],
            [["the cat sat on THE mat", "ärger über übel"]],
            True,
            "BLEU = 81.649658, 77.7778/71.4286/80.0000/100.0000 (BP=1.000000, ratio=1.000000, hyp_len=9, ref_len=9)",
        ),
        (
            ["a b c d e f g", "a b a b a b", ""],
            [["a b c d x f g", "a b a b", "q"], ["a b c d e", "b a b a b a b a", "q r"]],
            False,
            "BLEU = 84.301189, 100.0000/90.9091/77.7778/71.4286 (BP=1.000000, ratio=1.083333, hyp_len=13, ref_len=12)",
        ),
        (
            ["x y\xa0z à b c d\x0ce", "\u3000 k l m n"],
            [["x y z à b c d e", "k l m n"]],
            False,
            "BLEU = 65.341892, 83.3333/70.0000/62.5000/50.0000 (BP=1.000000, ratio=1.000000, hyp_len=12, ref_len=12)",
        ),
        (
            ["one two three"],
            [["one two three"]],
            False,
            "BLEU = 0.000000, 100.0000/100.0000/100.0000/0.0000 (BP=1.000000, ratio=1.000000, hyp_len=3, ref_len=3)",
        ),
    ],
)
def test_values_that_the_script_printed(
    hypotheses: list[str], references: list[list[str]], lowercase: bool, printed: str
) -> None:
    found = score(hypotheses, references, lowercase=lowercase)
    precisions = "/".join(f"{precision:.4f}" for precision in found.precisions)
    assert printed == (
        f"BLEU = {found.score:.6f}, {precisions} (BP={found.brevity_penalty:.6f}, ratio={found.ratio:.6f}, "
        f"hyp_len={found.hypothesis_length}, ref_len={found.reference_length})"
    )


def naive(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The same by striking out matches one by one, in fractions, with a product in the place of logarithms."""
    matches, totals = [0] * 4, [0] * 4
    length = wanted_length = 0
    for index, hypothesis in enumerate(hypotheses):
        words = hypothesis.split()
        others = [reference[index].split() for reference in references]
        length += len(words)
        by_closeness = sorted(others, key=lambda other: 2 * abs(len(other) - len(words)) + (len(other) > len(words)))
        wanted_length += len(by_closeness[0])
        for n in range(1, 5):
            pairs = [words[i : i + n] for i in range(len(words)) if i + n <= len(words)]
            totals[n - 1] += len(pairs)
            left = [[other[i : i + n] for i in range(len(other)) if i + n <= len(other)] for other in others]
            for ngram in pairs:
                hit = False
                for ngrams in left:
                    if ngram in ngrams:
                        ngrams.remove(ngram)
                        hit = True
                matches[n - 1] += hit
    if 0 in matches:
        return 0.0
    product = math.prod(Fraction(match, total) for match, total in zip(matches, totals, strict=True))
    return 100 * math.exp(min(0, 1 - wanted_length / length)) * float(product) ** 0.25


LINE = st.lists(st.sampled_from("abc"), max_size=12).map(" ".join)


@given(st.lists(st.tuples(LINE, LINE, LINE), min_size=1, max_size=4), st.integers(1, 2))
def test_equals_the_naive_version(rows: list[tuple[str, str, str]], num_references: int) -> None:
    hypotheses, *references = map(list, zip(*rows, strict=True))
    references = references[:num_references]
    assert score(hypotheses, references).score == pytest.approx(naive(hypotheses, references), abs=1e-9)


@given(st.lists(st.tuples(LINE, LINE), min_size=1, max_size=5))
def test_equals_sacrebleu_without_smoothing_and_tokenizer(rows: list[tuple[str, str]]) -> None:
    hypotheses, reference = map(list, zip(*rows, strict=True))
    expected = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(hypotheses, [reference])
    found = score(hypotheses, [reference])
    assert found.score == pytest.approx(expected.score, abs=1e-9)
    assert (found.hypothesis_length, found.reference_length) == (expected.sys_len, expected.ref_len)


@given(st.lists(LINE.filter(lambda line: len(line) >= 7), min_size=1, max_size=4))
def test_a_text_against_itself_is_perfect(lines: list[str]) -> None:
    assert score(lines, [lines]).score == pytest.approx(100)
    assert score(lines, [[""] * len(lines), lines]).score == pytest.approx(100)


def test_a_reference_farther_than_the_script_looks() -> None:
    assert score(["a"], [["b " * 20_000]]).reference_length == 9999


class TestTokenisers:
    def test_blanks_are_perls(self) -> None:
        assert split_at_blanks(" a\u00a0b  c\td\fe\vf\u3000g\rh\x85i ") == [
            "a\u00a0b",
            "c",
            "d",
            "e",
            "f\u3000g",
            "h\x85i",
        ]
        assert split_at_blanks(" \t") == []

    @pytest.mark.parametrize(
        ("language", "line", "tokens"),
        [
            ("en", "I don't like <well-known> & [3.5%].", "I don 't like < well-known > & [ 3.5 % ] ."),
            ("de", "Er sagte: z.B. 'Ja', am 3. Mai.", "Er sagte : z.B. ' Ja ' , am 3. Mai ."),
            ("fr", "L'eau d'ici...", "L' eau d' ici ..."),
            ("zh", "我喜欢ABC 3.5。", "我 喜 欢 ABC 3.5 。"),
            (None, "I don't.", "I don't."),
        ],
    )
    def test_tokens(self, language: str | None, line: str, tokens: str) -> None:
        assert tokeniser_for(language).split(line) == tokens.split(" ")

    @pytest.mark.parametrize(
        ("language", "name"),
        [
            ("de", f"sacremoses-{sacremoses.__version__}-de-nohyphen-noescape"),
            ("zh", f"sacrebleu-{sacrebleu.__version__}-zh-characters"),
            (None, "none"),
        ],
    )
    def test_the_signature_names_the_tokeniser(self, language: str | None, name: str) -> None:
        found = tokenised_bleu(HYPOTHESIS, [REFERENCE, REFERENCE], language=language, num_bootstrap=0)
        assert found.signature == f"BLEU|multi-bleu|tok:{name}|case:mixed|refs:2|v{__version__}"

    def test_the_signature_with_all_options(self) -> None:
        found = tokenised_bleu(HYPOTHESIS, [REFERENCE], language=None, lowercase=True, num_bootstrap=50)
        assert found.signature == f"BLEU|multi-bleu|tok:none|case:lc-ascii|refs:1|bs:50|seed:12345|v{__version__}"

    @pytest.mark.parametrize(("language", "message"), [("th", "written without blanks"), ("xx", "English ones")])
    def test_languages_that_sacremoses_does_not_know(self, language: str, message: str) -> None:
        with pytest.warns(UserWarning, match=message):
            tokenised_bleu(["a"], [["a"]], language=language, num_bootstrap=0)

    @pytest.mark.parametrize("language", ["", "DE", "de-DE", "german", "d|"])
    def test_what_is_no_language(self, language: str) -> None:
        with pytest.raises(ValueError, match="expected the code of a language"):
            tokenised_bleu(["a"], [["a"]], language=language)


def test_the_interval_is_sacrebleus() -> None:
    expected = BLEU(tokenize="none", smooth_method="none").corpus_score(HYPOTHESIS, [REFERENCE], n_bootstrap=200)
    found = tokenised_bleu(HYPOTHESIS, [REFERENCE], language=None, num_bootstrap=200).interval
    assert found is not None
    assert str(found) == expected.format(score_only=True).partition("= ")[2].rstrip(")")
    assert found.half_width > 0
