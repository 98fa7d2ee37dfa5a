"""BLEU and chrF against sacrebleu's public functions and program."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tests.evaluation.corpora import HYPOTHESIS, REFERENCE, noisy, sentences

from rela.evaluation import Score, corpus_bleu, corpus_chrf

SECOND = noisy(REFERENCE, 0.2, seed=1)


def printed(score: Score) -> dict[str, float]:
    assert score.interval is not None
    return {
        "score": round(score.score, 2),
        "confidence_mean": round(score.interval.mean, 2),
        "confidence_var": round(score.interval.half_width, 2),
    }


def test_a_table_of_exact_values() -> None:
    # 13a on "a b c d e" against "a b c d f": 4/5, 3/4, 2/3, 1/2, equal lengths.
    score = corpus_bleu(["a b c d e"], [["a b c d f"]], num_bootstrap=0)
    assert score.precisions == pytest.approx((80, 75, 200 / 3, 50))
    assert score.score == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert (score.brevity_penalty, score.hypothesis_length, score.reference_length) == (1, 5, 5)
    assert score.interval is None
    assert score.signature == f"BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"


@pytest.mark.parametrize("references", [[REFERENCE], [REFERENCE, SECOND]], ids=["one", "two"])
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "none", "zh"])
def test_bleu_is_sacrebleus(references: list[list[str]], lowercase: bool, tokenize: str) -> None:
    metric = BLEU(tokenize=tokenize, lowercase=lowercase)
    expected = metric.corpus_score(HYPOTHESIS, references, n_bootstrap=100)
    score = corpus_bleu(HYPOTHESIS, references, tokenize=tokenize, lowercase=lowercase, num_bootstrap=100)
    assert score.score == expected.score
    assert score.precisions == tuple(expected.precisions)
    assert (score.hypothesis_length, score.reference_length) == (expected.sys_len, expected.ref_len)
    assert score.brevity_penalty == expected.bp
    assert score.signature == f"BLEU|{metric.get_signature()}"
    public = json.loads(expected.format(signature=str(metric.get_signature()), is_json=True))
    assert printed(score) == {key: public[key] for key in printed(score)}


@pytest.mark.parametrize(("words", "name"), [(False, "chrF2"), (True, "chrF2++")])
@pytest.mark.parametrize("lowercase", [False, True])
def test_chrf_is_sacrebleus(words: bool, name: str, lowercase: bool) -> None:
    metric = CHRF(word_order=2 * words, lowercase=lowercase)
    expected = metric.corpus_score(HYPOTHESIS, [REFERENCE, SECOND], n_bootstrap=100)
    score = corpus_chrf(HYPOTHESIS, [REFERENCE, SECOND], words=words, lowercase=lowercase, num_bootstrap=100)
    assert (score.name, score.score) == (name, expected.score)
    assert score.signature == f"{name}|{metric.get_signature()}"
    public = json.loads(expected.format(signature=str(metric.get_signature()), is_json=True))
    assert printed(score) == {key: public[key] for key in printed(score)}


def test_both_are_what_the_program_prints(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("\n".join(REFERENCE) + "\n")
    (tmp_path / "hyp").write_text("\n".join(HYPOTHESIS) + "\n")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-m", "bleu", "chrf", "--confidence"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    bleu, chrf = json.loads(done.stdout)
    for public, score in (
        (bleu, corpus_bleu(HYPOTHESIS, [REFERENCE])),
        (chrf, corpus_chrf(HYPOTHESIS, [REFERENCE])),
    ):
        assert score.signature == f"{public['name']}|{public['signature']}"
        rounded = {key: round(value, 1) for key, value in printed(score).items()}
        assert rounded == pytest.approx({key: public[key] for key in rounded}, abs=0.051)


def test_the_papers_recipe() -> None:
    # BLEU+c.mixed+#.1+s.exp+tok.13a, in the words of today's sacrebleu
    signature = corpus_bleu(HYPOTHESIS, [REFERENCE], num_bootstrap=0).signature
    for part in ("case:mixed", "nrefs:1", "smooth:exp", "tok:13a"):
        assert part in signature.split("|")


@pytest.mark.parametrize("language", ["zh", "de"])
def test_the_language_chooses_the_tokenizer(language: str) -> None:
    score = corpus_bleu(["我喜欢猫。"], [["我喜欢狗。"]], language=language, num_bootstrap=0)
    assert f"|tok:{'zh' if language == 'zh' else '13a'}|" in score.signature
    assert score.hypothesis_length == (5 if language == "zh" else 1)


@pytest.mark.parametrize(
    ("hypotheses", "expected"),
    [(REFERENCE, 100), ([""] * len(REFERENCE), 0), (["#"] * len(REFERENCE), 0)],
    ids=["identical", "all empty", "nothing right"],
)
def test_extremes(hypotheses: list[str], expected: float) -> None:
    assert corpus_bleu(hypotheses, [REFERENCE], num_bootstrap=40).score == pytest.approx(expected)
    assert corpus_chrf(hypotheses, [REFERENCE], num_bootstrap=40).score == pytest.approx(expected)


def test_an_empty_line_costs_its_sentence_alone() -> None:
    assert 0 < corpus_bleu([*REFERENCE[:-1], ""], [REFERENCE]).score < 100


def test_a_single_sentence_has_no_spread() -> None:
    score = corpus_bleu(HYPOTHESIS[:1], [REFERENCE[:1]])
    assert score.interval is not None
    assert score.interval.half_width == 0
    assert score.interval.mean == pytest.approx(score.score, rel=1e-5)  # sacrebleu resamples in float32


def test_the_same_in_every_run() -> None:
    assert corpus_bleu(HYPOTHESIS, [REFERENCE]) == corpus_bleu(HYPOTHESIS, [REFERENCE])
    assert corpus_chrf(HYPOTHESIS, [REFERENCE]) == corpus_chrf(HYPOTHESIS, [REFERENCE])


def test_as_json() -> None:
    data = corpus_bleu(HYPOTHESIS, [REFERENCE], num_bootstrap=40).to_json()
    assert json.loads(json.dumps(data, allow_nan=False))["interval"]["num_samples"] == 40
    assert set(data) >= {"name", "score", "precisions", "brevity_penalty", "signature"}


class TestNotes:
    def test_text_that_looks_tokenised(self) -> None:
        with pytest.warns(UserWarning, match=r"rela: 2 of 3 hypotheses end in ' \.', as tokenised text does") as seen:
            corpus_bleu(["a b .", "c .", "d"], [["a", "b", "c"]], num_bootstrap=0)
        assert len(seen) == 1
        assert seen[0].filename == __file__

    def test_a_hundred_are_no_accident(self) -> None:
        lines = sentences(300)
        with pytest.warns(UserWarning, match="100 of 300"):
            corpus_bleu([line + " ." * (i < 100) for i, line in enumerate(lines)], [lines], num_bootstrap=0)

    def test_a_few_are_and_none_matter_without_a_tokenizer(self, caplog: pytest.LogCaptureFixture) -> None:
        corpus_bleu(["a .", "b", "c"], [["a", "b", "c"]], num_bootstrap=0)
        corpus_bleu(["a ."] * 200, [["a ."] * 200], tokenize="none", num_bootstrap=0)
        assert not caplog.records

    def test_what_sacrebleu_logs_becomes_a_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.warns(UserWarning, match="rela: sacrebleu says: Consider using the 'zh'") as seen:
            corpus_bleu(["a"], [["a"]], tokenize="13a", language="zh", num_bootstrap=0)
        assert seen[0].filename == __file__
        assert not caplog.records
        assert logging.getLogger("sacrebleu").propagate


class TestErrors:
    def test_an_unknown_tokenizer(self) -> None:
        with pytest.raises(ValueError, match=r"expected one of sacrebleu's tokenizers .*13a.*; got '14a'"):
            corpus_bleu(["a"], [["a"]], tokenize="14a")

    def test_too_few_samples(self) -> None:
        with pytest.raises(ValueError, match="at least 40 bootstrap samples for a 95% interval, got 39"):
            corpus_bleu(["a"], [["a"]], num_bootstrap=39)
        with pytest.raises(ValueError, match="at least 40"):
            corpus_chrf(["a"], [["a"]], num_bootstrap=-1)

    def test_a_tokenizer_whose_package_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "MeCab", None)
        monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
        with pytest.raises(ValueError, match=r"BLEU needs a package for 'ja': .*sacrebleu\[ja\]"):
            corpus_bleu(["a"], [["a"]], language="ja")
