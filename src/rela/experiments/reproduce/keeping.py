"""What is kept of an analysis: the numbers that tables and figures show, with five digits that count."""

from __future__ import annotations

from typing import Any, Final

from rela.experiments.reproduce.plan import Job

_LEFT_OUT: Final = frozenset({"distance", "mass", "entropy", "sink_first", "sink_last"})


def entry_to_keep(entry: dict[str, Any], job: Job) -> dict[str, Any]:
    """The entry of a model, named by its system and its seed, without what nothing shows."""
    kept = {key: value for key, value in entry.items() if key != "path"}
    kept |= {"name": f"{job.system.name}, seed {job.seed}", "group": job.system.name, "seed": job.seed}
    kept["measures"] = {name: rounded(found) for name, found in entry["measures"].items() if is_shown(name)}
    return kept


def is_shown(measure: str) -> bool:
    """Whether a table or a figure has this measure."""
    return not _LEFT_OUT & set(measure.split("."))


def rounded(value: Any) -> Any:
    """Five digits that count."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [rounded(part) for part in value]
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return value
