"""A whole reproduction: what is to be done is planned, done, and shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rela._lock import FolderLock
from rela.experiments.reproduce.evidence import Evidence
from rela.experiments.reproduce.job import is_done, measurable
from rela.experiments.reproduce.launching import Launch
from rela.experiments.reproduce.pace import Pace, estimate_seconds, measure_pace
from rela.experiments.reproduce.places import Places, load_kept
from rela.experiments.reproduce.plan import Job, Wanted, jobs_of
from rela.experiments.reproduce.scales import Study
from rela.experiments.reproduce.showing import Shown, show
from rela.experiments.reproduce.speed import is_timed, measure_speed
from rela.experiments.reproduce.texts import make_store
from rela.experiments.reproduce.times import Clock, read_times
from rela.experiments.reproduce.workers import JobFailedError, Watcher, run_jobs
from rela.model.directory import MODEL_FOLDER

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is to be done: jobs that are wanted, those of them that are not done yet, and how long they will take."""

    wanted: list[Job]
    todo: list[Job]
    pace: Pace | None
    seconds: float


def make_plan(
    study: Study, wanted: Wanted, places: Places, say: Say, *, workers: int | None = None, timed: bool = True
) -> Plan:
    """Prepares the text too: without it nobody knows how long a training takes. ``timed``: a few updates are tried."""
    jobs = jobs_of(study, wanted)
    todo = [job for job in jobs if not is_done(places, job)]
    for task in dict.fromkeys(job.task.corpus for job in todo if measurable(places, job) != list(job.steps)):
        say(f"{task}: weights are not compared with gold links, since RELA_DATA has none for it")
    for task in study.tasks:
        if any(job.task is task for job in todo) or (task is study.main and _times_something(study, wanted, places)):
            make_store(places, task, say)
    if not todo or not timed:
        return Plan(jobs, todo, None, 0.0)
    pace = measure_pace(places, todo[0])
    if workers is not None:
        pace = Pace(workers, max(1, pace.workers * pace.threads // workers), pace.tokens_per_second)
    untrained = [job for job in todo if load_kept(places, job, "train") is None or not _has_model(places, job)]
    return Plan(jobs, todo, pace, estimate_seconds(places, untrained, pace))


def _has_model(places: Places, job: Job) -> bool:
    return (places.run(job) / MODEL_FOLDER).exists()


def _times_something(study: Study, wanted: Wanted, places: Places) -> bool:
    return wanted.speed and not is_timed(places, study)


def reproduce(
    study: Study,
    wanted: Wanted,
    places: Places,
    plan: Plan,
    watcher: Watcher,
    say: Say,
    *,
    command: str,
    launch: Launch | None = None,
) -> Shown:
    """Do what is planned, and show all that there is. ``launch`` trains on several processes, one job at a time.

    A job that fails does not keep the others from being done and shown; its error is raised last.
    """
    places.work.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(places.work, f"{places.work}: another process is at work here; wait for it, or stop it first")
    clock, failed = Clock(places, command, watcher), None
    try:
        if plan.todo:
            pace = plan.pace or Pace(1, 1, 0.0)
            try:
                run_jobs(places, plan.todo, pace.workers if launch is None else 1, pace.threads, clock, launch)
            except JobFailedError as error:
                failed = error
        if _times_something(study, wanted, places):
            measure_speed(places, study, say)
    finally:
        clock.write()
        lock.release()
    shown = show(Evidence(study, places), wanted, _facts(places))
    if failed is not None:
        raise failed
    return shown


def show_what_is_there(study: Study, wanted: Wanted, places: Places) -> Shown:
    """Tables, figures and page of what was found up to now."""
    if not places.data.is_dir():
        raise ValueError(f"{places.data}: expected results of `rela reproduce`, got no such folder; run it first")
    return show(Evidence(study, places), wanted, _facts(places))


def _facts(places: Places) -> list[str]:
    found = read_times(places)
    if not found:
        return []
    commands = dict.fromkeys(entry["command"] for entry in found)
    seconds = sum(entry["seconds"] for entry in found)
    machines = ", ".join(dict.fromkeys(f"{entry['processor']} ({entry['cores']} cores)" for entry in found))
    times = "once" if len(found) == 1 else f"{len(found)} times, since it goes on where it was stopped"
    return [
        "```text",
        *commands,
        "```",
        "",
        f"Given {times}; in all {seconds / 60:,.0f} minutes of work on {machines}, torch {found[-1]['torch']}.",
    ]
