"""What a reproduction does, and in which order."""

import pytest

from rela.experiments.reproduce.plan import PARTS, Wanted, jobs_of
from rela.experiments.reproduce.scales import SCALES, find_study
from rela.experiments.reproduce.systems import ANALYSED, SYSTEMS


def names(corpus: str, scale: str, **wanted: object) -> list[str]:
    return [job.name for job in jobs_of(find_study(corpus, scale), Wanted(**wanted))]  # pyright: ignore[reportArgumentType]


def test_the_laptop_trains_what_was_asked_for_in_order() -> None:
    found = names("multi30k-en-de", "laptop")
    first = [f"multi30k-en-de/{system}-{seed}" for seed in (1, 2, 3) for system in ANALYSED]
    assert found[: len(first)] == first
    rest = found[len(first) :]
    rows = [f"multi30k-en-de/{name}-1" for name, one in SYSTEMS.items() if one.row is not None and name not in ANALYSED]
    assert rest[: len(rows) + 2] == [*rows, "multi30k-en-de/rela-i-2", "multi30k-en-de/rela-i-3"]
    assert "multi30k-en-fr/softmax-1" in rest
    assert "multi30k-en-cs/rela-g-1" in rest
    assert "europarl-en-de/rela-g-1" in rest
    assert "grammar/entmax15-1" in rest
    assert len(found) == len(set(found))


def test_all_thirteen_rows_are_there() -> None:
    assert sorted(one.row for one in SYSTEMS.values() if one.row is not None) == list(range(1, 14))
    studies = find_study("grammar", "tiny"), find_study("multi30k-en-de", "laptop"), find_study("wmt14-en-de", "paper")
    for study in studies:
        trained = {job.system.row for job in jobs_of(study, Wanted()) if job.task.role == "main"}
        assert set(range(1, 14)) <= trained


def test_the_five_tasks_of_the_paper() -> None:
    tasks = [task.corpus for task in find_study("wmt14-en-de", "paper").tasks]
    assert tasks == ["wmt14-en-de", "wmt14-en-fr", "wmt18-en-fi", "wmt18-zh-en", "wmt16-ro-en"]


def test_only_what_a_table_needs() -> None:
    assert names("multi30k-en-de", "laptop", parts=("table4",)) == []
    assert names("multi30k-en-de", "laptop", parts=("figure7",)) == [f"multi30k-en-de/rela-g-{n}" for n in (1, 2, 3)]
    sixth = {name.partition("/")[0] for name in names("multi30k-en-de", "laptop", parts=("table6",))}
    assert sixth == {"multi30k-en-de"}
    fifth = {name.partition("/")[0] for name in names("multi30k-en-de", "laptop", parts=("table5",))}
    assert fifth == {"multi30k-en-de", "grammar", "europarl-en-de"}


def test_some_systems_and_seeds() -> None:
    found = names("multi30k-en-de", "laptop", parts=("table1",), systems=("softmax", "rela-i"), seeds=(1,))
    assert found == ["multi30k-en-de/softmax-1", "multi30k-en-de/rela-i-1"]
    assert names("grammar", "tiny", parts=("table1",), systems=("rela-g-length",)) == ["grammar/rela-g-length-1"]
    assert names("multi30k-en-de", "laptop", systems=("relu",)) == ["multi30k-en-de/relu-1"]  # of no other task


def test_steps_where_they_make_sense() -> None:
    jobs = {job.name: job.steps for job in jobs_of(find_study("multi30k-en-de", "laptop"), Wanted())}
    assert jobs["multi30k-en-de/rela-g-1"] == ("test", "weights", "ranking", "cases")
    assert jobs["multi30k-en-de/rela-g-3"] == ("test", "weights", "ranking", "cases")
    assert jobs["multi30k-en-de/softmax-1"] == ("test", "weights")
    assert jobs["multi30k-en-de/rela-g-gelu-1"] == ("test",)
    assert jobs["multi30k-en-fr/rela-g-1"] == ("test",)
    assert jobs["europarl-en-de/rela-g-1"] == ("test", "weights")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="expected systems out of softmax"):
        Wanted(systems=("sotfmax",))
    with pytest.raises(ValueError, match="expected some of table1"):
        Wanted(parts=("table7",))
    with pytest.raises(ValueError, match="known corpus"):
        find_study("multi31k", "tiny")


def test_every_table_and_figure_has_its_part() -> None:
    numbered = {f"table{n}" for n in range(1, 7)} | {f"figure{n}" for n in range(1, 11)}
    assert set(PARTS) == numbered | {"claims", "training", "differences"}
    assert SCALES == ("tiny", "laptop", "paper")
