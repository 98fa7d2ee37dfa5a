"""Answers to the paper's claims, from results with numbers of our choice."""

from pathlib import Path

import pytest
from tests.experiments.reproduce.made_up import BLEU, make_study

from rela.experiments.reproduce.claims import CLAIMS, answer_claims
from rela.experiments.reproduce.evidence import Evidence


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return make_study(tmp_path_factory.mktemp("study"))


def answers(evidence: Evidence) -> dict[int, str]:
    return {verdict.number: verdict.answer for verdict in answer_claims(evidence)}


def test_each_claim_has_an_answer(evidence: Evidence) -> None:
    assert list(CLAIMS) == list(range(1, 16))
    found = answers(evidence)
    assert found[1] == "holds"  # it failed
    assert found[2] == "holds"  # much worse than softmax
    assert found[4] == "underpowered"  # equal systems cannot be told apart
    assert found[7] == "not measured"
    assert found[15] == "holds"
    for number in (8, 9, 10, 11, 12, 13, 14):
        assert found[number] == "holds", answer_claims(evidence)[number - 1]


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    found = answer_claims(make_study(tmp_path, but=("relu-rmsnorm",)))
    assert found[1].answer == "not measured"
    assert found[1].statements[0].text == "There is no test of relu-rmsnorm on multi30k-en-de."


def test_a_training_that_does_not_fail(tmp_path: Path) -> None:
    """The paper's row 4, as it comes out."""
    from tests.experiments.reproduce.made_up import facts

    from rela.experiments.reproduce.places import keep
    from rela.experiments.reproduce.plan import Wanted, jobs_of

    made = make_study(tmp_path)
    job = next(job for job in jobs_of(made.study, Wanted()) if job.system.name == "relu")
    done = facts(job, "train", BLEU) | {"status": "done", "reason": None}
    keep(made.places, job, "train", done)
    keep(made.places, job, "test", facts(job, "test", BLEU))
    verdict = answer_claims(made)[0]
    assert verdict.answer == "does not hold"
    assert "Ours trains: BLEU 47.10" in verdict.statements[0].text
    assert "greatest 80" in verdict.statements[0].text


def test_a_system_that_is_better_where_the_paper_says_worse(tmp_path: Path) -> None:
    found = answers(make_study(tmp_path, bleu={**BLEU, "relu-rmsnorm": 0.6}))
    assert found[2] == "does not hold"
    assert found[3] == "does not hold"
