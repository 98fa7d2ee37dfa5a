"""A training on several processes, as torchrun starts them: one for each GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

from rela._files import write_text
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.plan import Job
from rela.training.config import dump_config
from rela.training.divergence import DivergedError
from rela.training.journal import STATUS_FILE, read_status


class Launch(NamedTuple):
    """So many processes, and what each computes on."""

    processes: int
    device: str


def command_of(places: Places, job: Job, launch: Launch) -> list[str]:
    """The command line of a job's training. It goes on with one that was cut off."""
    run = places.run(job)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={launch.processes}"]
    training = ["-m", "rela", "train", f"{run}.yaml", "--run-dir", str(run), "--resume", "--device", launch.device]
    return [*torchrun, *training]


def train_distributed(places: Places, job: Job, launch: Launch) -> None:
    """Train to the end. A training that diverged raises as one in this process does."""
    run = places.run(job)
    run.parent.mkdir(parents=True, exist_ok=True)
    write_text(run.with_name(f"{run.name}.yaml"), dump_config(places.config(job)))
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    code = subprocess.run(command_of(places, job, launch), env=environment, check=False).returncode
    if code == 0 and read_status(run) == "done":
        return
    reason = _reason(places, job)
    if reason.startswith("the training diverged"):
        raise DivergedError(reason)
    raise ChildProcessError(f"{job.name}: torchrun ended with {code}; {reason or 'its output says why'}")


def _reason(places: Places, job: Job) -> str:
    """What the run's own file says."""
    try:
        status = json.loads((places.run(job) / STATUS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return status.get("reason", "") if status.get("status") == "failed" else ""
