"""Every attention beside torch's own: the whole sublayer and the core alone, forward and forward + backward.

Whole sublayer: ``rela.MultiheadAttention`` against ``torch.nn.MultiheadAttention`` with ``need_weights=False``, self-
attention. Core: from projected heads to the normed, concatenated output, against ``F.scaled_dot_product_attention``.
Forward runs in eval mode without gradients (torch then takes its fused path); forward + backward in training mode with
dropout 0. Weights start as they do in training; inputs are normal random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rela._version import __version__
from rela.attention import MultiheadAttention, functional
from rela.attention.maps import alpha_from_logit
from rela.attention.masks import Mask
from rela.attention.spec import resolve
from rela.bench.cases import MODES, Mode
from rela.bench.machine import kernel_name
from rela.bench.results import Number
from rela.bench.results import measure as as_measure
from rela.bench.timing import Speed, Subject, compare

Part = Literal["sublayer", "core"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
BASELINES: Final[dict[Part, str]] = {
    "sublayer": "torch.nn.MultiheadAttention",
    "core": "F.scaled_dot_product_attention",
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One measured situation."""

    length: int
    batch: int
    dim: int
    num_heads: int
    seed: int = 0

    @property
    def signature(self) -> str:
        """The recipe of the numbers measured in it."""
        return (
            f"T:{self.length}|B:{self.batch}|d:{self.dim}|H:{self.num_heads}|dtype:float32|device:cpu"
            f"|threads:{torch.get_num_threads()}|kernel:{kernel_name()}|torch:{torch.__version__}|rela:{__version__}"
            f"|seed:{self.seed}"
        )


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What an attention's weights look like on the batch, at the start of training."""

    sparsity: float
    null_rate: float
    extra_parameters: int


def describe_weights(setting: Setting, names: Sequence[str]) -> dict[str, Weights]:
    """Sparsity rate, null rate and extra parameters of every attention on one batch."""
    x = _input(setting)
    result: dict[str, Weights] = {}
    for name in names:
        module = _ours(setting, name).eval()
        with torch.no_grad():
            weights = module(x, x, x, need_weights=True, average_attn_weights=False)[1]
        assert weights is not None
        result[name] = Weights(
            sparsity=functional.sparsity_rate(weights).item(),
            null_rate=functional.null_rate(weights).item(),
            extra_parameters=sum(p.numel() for p in module.own_parameters().values()),
        )
    return result


def measure(
    setting: Setting,
    names: Sequence[str],
    part: Part,
    mode: Mode,
    *,
    rounds: int,
    on_round: Callable[[], object] = lambda: None,
) -> dict[str, Speed]:
    """Speed of every attention relative to torch's own; the baseline itself is in the result, at 1."""
    make = _sublayer_subjects if part == "sublayer" else _core_subjects
    subjects = make(setting, names, mode)
    return compare(subjects, BASELINES[part], rounds=rounds, seed=setting.seed, on_round=on_round)


def entries(found: Sequence[Mapping[str, Any]], rounds: int) -> list[dict[str, Any]]:
    """Each attention as an entry of a result file, with a measure for each part and mode along the lengths.

    ``found`` has, for each ``setting``, of all ``attentions`` their :class:`Weights` and :class:`Speed` as mappings.
    """
    names = list(found[0]["attentions"]) if found else []
    return [{"name": name, "measures": _measures(found, name, rounds)} for name in names]


def _measures(found: Sequence[Mapping[str, Any]], name: str, rounds: int) -> dict[str, Any]:
    labels = [str(one["setting"].length) for one in found]
    seen = [one["attentions"][name] for one in found]
    first: Setting = found[0]["setting"]
    recipe = f"attention:{name}|{first.signature}|tokens:{first.batch * first.length}|rounds:{rounds}|statistic:median"
    measures = {
        f"{part}.{mode}": as_measure(
            f"{part}|mode:{mode}|against:{BASELINES[part]}|{recipe}",
            "length",
            {label: _number(one[f"{part}.{mode}"]) for label, one in zip(labels, seen, strict=True)},
        )
        for part in PARTS
        for mode in MODES
    }
    for rate in ("sparsity", "null_rate"):
        values = {label: Number(value=one[rate]) for label, one in zip(labels, seen, strict=True)}
        measures[rate] = as_measure(f"{rate}|{recipe}", "length", values)
    extra = Number(value=seen[0]["extra_parameters"])
    return measures | {"extra_parameters": as_measure(f"extra parameters|{recipe}", None, extra)}


def _number(speed: Mapping[str, Any]) -> Number:
    return Number.of_speed(Speed(**speed))


def _sublayer_subjects(setting: Setting, names: Sequence[str], mode: Mode) -> dict[str, Subject]:
    torch.manual_seed(setting.seed)
    modules: dict[str, nn.Module] = {
        BASELINES["sublayer"]: nn.MultiheadAttention(setting.dim, setting.num_heads, batch_first=True)
    }
    modules |= {name: _ours(setting, name) for name in names}
    x = _input(setting).requires_grad_(mode != "forward")
    grad = torch.randn_like(x)

    def subject(module: nn.Module) -> Subject:
        module.train(mode != "forward")
        inputs = [x, *module.parameters()]
        return _runner(lambda: module(x, x, x, need_weights=False)[0], inputs, grad, mode)

    return {name: subject(module) for name, module in modules.items()}


def _core_subjects(setting: Setting, names: Sequence[str], mode: Mode) -> dict[str, Subject]:
    torch.manual_seed(setting.seed)
    heads = (setting.batch, setting.length, 3, setting.num_heads, setting.dim // setting.num_heads)
    packed = torch.randn(heads)  # as the projections leave them: heads are strided views
    q, k, v = (t.requires_grad_(mode != "forward") for t in packed.permute(2, 0, 3, 1, 4).unbind(0))
    grad = torch.randn(setting.batch, setting.length, setting.dim)

    def baseline() -> Tensor:
        return functional.concat_heads(F.scaled_dot_product_attention(q, k, v))

    def ours(name: str) -> tuple[Callable[[], Tensor], list[Tensor]]:
        module = _ours(setting, name)
        spec, norm, logit, threshold = resolve(name), module.norm, module.alpha_logit, module.threshold

        def run() -> Tensor:
            attended = functional.attend(
                q,
                k,
                v,
                spec,
                Mask(),
                threshold=spec.threshold if threshold is None else threshold,
                alpha=1.5 if logit is None else alpha_from_logit(logit),
            )
            hidden = functional.concat_heads(attended.output)
            return hidden if norm is None else norm(hidden)

        return run, list(module.own_parameters().values())

    subjects = {BASELINES["core"]: _runner(baseline, [q, k, v], grad, mode)}
    for name in names:
        run, parameters = ours(name)
        subjects[name] = _runner(run, [q, k, v, *parameters], grad, mode)
    return subjects


def _runner(forward: Callable[[], Tensor], inputs: list[Tensor], grad: Tensor, mode: Mode) -> Subject:
    def run_forward() -> None:
        with torch.no_grad():
            forward()

    def run_both() -> None:
        used = [t for t in inputs if t.requires_grad]
        torch.autograd.grad(forward(), used, grad, allow_unused=True)

    return run_forward if mode == "forward" else run_both


def _ours(setting: Setting, name: str) -> MultiheadAttention:
    torch.manual_seed(setting.seed)
    return MultiheadAttention(setting.dim, setting.num_heads, attention=name, batch_first=True)


def _input(setting: Setting) -> Tensor:
    generator = torch.Generator().manual_seed(setting.seed)
    return torch.randn(setting.batch, setting.length, setting.dim, generator=generator)
