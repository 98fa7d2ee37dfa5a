"""`rela.functional.relu_attention` beside `F.scaled_dot_product_attention` and the entmax package, in one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

import torch
from entmax import entmax15  # pyright: ignore[reportMissingTypeStubs]
from torch import Tensor

from rela._version import __version__
from rela.bench.cases import HEAD_DIM, MODES, Call, Case, Mode, cases, density_of, make_call, runner
from rela.bench.machine import kernel_name
from rela.bench.results import Number, Points, measure
from rela.bench.timing import Speed, compare
from rela.bench.traces import Trace

OURS: Final = "relu_attention"
TORCHS: Final = "F.scaled_dot_product_attention"
ENTMAX: Final = "entmax15"
ENTMAX_TARGET: Final = 20.0
_ENTMAX_LENGTHS: Final = (512, 2048)
"""From here on its target counts, and up to here it is timed: it sorts whole rows, and takes seconds a call."""
_LEAST_SECONDS: Final = 0.1
"""Of a turn. A point whose rounds are all over within a moment tells of that moment of the machine."""
_MOST_SECONDS: Final = 8.0
"""Of the rounds of a point; there are three at least."""


def signature(rounds: int) -> str:
    """The recipe of all numbers of a run."""
    return (
        f"core|d_h:{HEAD_DIM}|dtype:float32|device:cpu|threads:{torch.get_num_threads()}|kernel:{kernel_name()}"
        f"|rounds:{rounds}|statistic:median|torch:{torch.__version__}|v{__version__}"
    )


def measure_core(
    lengths: Sequence[int],
    traces: Sequence[Trace] = (),
    *,
    rounds: int,
    points: Points,
    entmax: bool = True,
    on_point: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """The entry of `relu_attention` in a result file: for each mode its speed over torch's and over entmax's."""
    recipe = signature(rounds)
    measures: dict[str, Any] = {}
    densities: dict[str, Number] = {}
    for mode in MODES:
        speeds: dict[str, Number] = {}
        over_entmax: dict[str, Number] = {}
        for case in cases(lengths):
            point = points.get(f"{recipe}|{mode}|{case.label}", lambda c=case, m=mode: _point(c, m, rounds))
            speeds[case.label] = _number(point["speed"], case.target(mode))
            densities[case.label] = Number(value=point["density"])
            on_point()
        for trace in traces:
            key = f"{recipe}|{mode}|{trace.label}|{trace.signature}"
            point = points.get(key, lambda t=trace, m=mode: _trace_point(t, m, rounds))
            speeds[trace.label] = _number(point["speed"], trace.target)
            densities[trace.label] = Number(value=point["density"])
            on_point()
        for length in lengths if entmax else ():
            if _ENTMAX_LENGTHS[0] <= length <= _ENTMAX_LENGTHS[1]:
                case = Case(length=length)
                key = f"{recipe}|{mode}|{ENTMAX}|{case.label}"
                point = points.get(key, lambda c=case, m=mode: _entmax_point(c, m))
                over_entmax[case.label] = _number(point["speed"], ENTMAX_TARGET)
                on_point()
        measures[f"core.{mode}"] = measure(f"{recipe}|mode:{mode}|against:{TORCHS}", "case", speeds)
        if over_entmax:
            name = f"core.{mode}.entmax15"
            measures[name] = measure(f"{recipe}|mode:{mode}|against:{ENTMAX}", "case", over_entmax)
    measures["core.density"] = measure(f"{recipe}|non-zero weights of all allowed", "case", densities)
    return {"name": OURS, "measures": measures}


def _number(speed: dict[str, Any], target: float | None) -> Number:
    return Number.of_speed(Speed(**speed), target)


def _point(case: Case, mode: Mode, rounds: int) -> dict[str, Any]:
    call = make_call(case, gradients=mode != "forward")
    return _compared([call], mode, rounds) | {"density": density_of(call)}


def _trace_point(trace: Trace, mode: Mode, rounds: int) -> dict[str, Any]:
    calls = list(trace.calls(gradients=mode != "forward"))
    weights = [float(call.query.shape[0] * call.query.shape[2]) for call in calls]
    density = sum(w * density_of(call) for w, call in zip(weights, calls, strict=True)) / sum(weights)
    return _compared(calls, mode, rounds) | {"density": density}


def _compared(calls: list[Call], mode: Mode, rounds: int) -> dict[str, Any]:
    inputs = [call.inputs() for call in calls]
    subjects = {
        TORCHS: runner([call.torchs for call in calls], inputs, mode),
        OURS: runner([call.ours for call in calls], inputs, mode),
    }
    found = compare(subjects, TORCHS, rounds=rounds, least=_LEAST_SECONDS, most=_MOST_SECONDS)
    return {"speed": asdict(found[OURS]), "baseline_seconds": found[TORCHS].seconds}


def _entmax_point(case: Case, mode: Mode) -> dict[str, Any]:
    """Three rounds: what is asked for is a factor of 20, not of 1.2."""
    call = make_call(case, gradients=mode != "forward")

    def attend() -> Tensor:
        scores = call.query @ call.key.transpose(-2, -1) / math.sqrt(HEAD_DIM)
        return entmax15(scores, dim=-1) @ call.value

    subjects = {
        ENTMAX: runner([attend], [call.inputs()], mode),
        OURS: runner([call.ours], [call.inputs()], mode),
    }
    found = compare(subjects, ENTMAX, rounds=3, least=_LEAST_SECONDS)
    return {"speed": asdict(found[OURS]), "baseline_seconds": found[ENTMAX].seconds}
