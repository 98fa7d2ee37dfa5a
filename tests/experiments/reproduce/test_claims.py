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
    assert found[1].statements[0].text == "Missing: training of relu-rmsnorm on multi30k-en-de."


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


def test_a_system_that_should_train_and_does_not(tmp_path: Path) -> None:
    """It is worse than any that does."""
    from tests.experiments.reproduce.made_up import facts

    from rela.experiments.reproduce.places import keep
    from rela.experiments.reproduce.plan import Wanted, jobs_of

    made = make_study(tmp_path, but=("relu-rmsnorm",))
    job = next(job for job in jobs_of(made.study, Wanted()) if job.system.name == "relu-rmsnorm")
    failed = {"status": "failed", "reason": "the training diverged at update 7", "model": None}
    keep(made.places, job, "train", facts(job, "train", BLEU) | failed)
    found = {verdict.number: verdict for verdict in answer_claims(made)}
    assert found[2].answer == "does not hold"
    assert "the training diverged at update 7" in found[2].statements[0].text
    assert [one.answer for one in found[3].statements] == ["holds", "holds", "holds"]


def test_without_tags_nobody_knows_of_specialists(tmp_path: Path) -> None:
    made = make_study(tmp_path)
    for path in (made.places.data / "multi30k-en-de").glob("rela-g-?.weights.json"):
        path.write_text(path.read_text("utf-8").replace('"tags": "made up"', '"tags": null'), encoding="utf-8")
    assert answers(made)[12] == "not measured"


def test_one_training_of_each_system_decides_nothing(tmp_path: Path) -> None:
    made = make_study(tmp_path)
    for path in made.places.data.glob("*/*-[23].*.json"):
        path.unlink()
    verdicts = {verdict.number: verdict for verdict in answer_claims(made)}
    assert {verdicts[number].answer for number in (4, 5, 6, 8, 9)} == {"underpowered"}
    assert "no system was trained twice" in verdicts[5].statements[0].test
