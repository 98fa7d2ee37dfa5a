"""A whole reproduction: what is to be done is planned, done, and shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rela._files import write_text
from rela._lock import FolderLock
from rela.bench.machine import describe
from rela.experiments.reproduce.evidence import Evidence
from rela.experiments.reproduce.job import is_done
from rela.experiments.reproduce.launching import Launch
from rela.experiments.reproduce.pace import Pace, estimate_seconds, measure_pace
from rela.experiments.reproduce.places import Places, load_kept
from rela.experiments.reproduce.plan import Job, Wanted, jobs_of
from rela.experiments.reproduce.scales import Study
from rela.experiments.reproduce.showing import Shown, show
from rela.experiments.reproduce.speed import FILE as SPEED_FILE
from rela.experiments.reproduce.speed import measure_speed
from rela.experiments.reproduce.texts import make_store
from rela.experiments.reproduce.workers import Watcher, run_jobs
from rela.model.directory import MODEL_FOLDER

_TIMES_FILE: Final = "times.json"

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
    for task in study.tasks:
        if any(job.task is task for job in todo) or (task is study.main and _times_something(wanted, places)):
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


def _times_something(wanted: Wanted, places: Places) -> bool:
    return wanted.speed and not (places.data / SPEED_FILE).exists()


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
    """Do what is planned, and show all that there is. ``launch`` trains on several processes, one job at a time."""
    places.work.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(places.work, f"{places.work}: another process is at work here; wait for it, or stop it first")
    began = time.monotonic()
    try:
        if plan.todo:
            pace = plan.pace or Pace(1, 1, 0.0)
            run_jobs(places, plan.todo, pace.workers if launch is None else 1, pace.threads, watcher, launch)
        if _times_something(wanted, places):
            measure_speed(places, study, say)
    finally:
        _count_time(places, command, time.monotonic() - began)
        lock.release()
    return show(Evidence(study, places), wanted, _facts(places))


def show_what_is_there(study: Study, wanted: Wanted, places: Places) -> Shown:
    """Tables, figures and page of what was found up to now."""
    if not places.data.is_dir():
        raise ValueError(f"{places.data}: expected results of `rela reproduce`, got no such folder; run it first")
    return show(Evidence(study, places), wanted, _facts(places))


def _count_time(places: Places, command: str, seconds: float) -> None:
    """How long which command took, of all that had something to do."""
    path = places.data / _TIMES_FILE
    if seconds < 1:
        return
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    places.data.mkdir(parents=True, exist_ok=True)
    machine = {key: value for key, value in describe().items() if key in ("processor", "cores", "torch")}
    found.append({"command": command, "seconds": round(seconds), **machine})
    write_text(path, json.dumps(found, indent=1) + "\n")


def _facts(places: Places) -> list[str]:
    path = places.data / _TIMES_FILE
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
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
