"""What lies between the projections: heads that attend, the parameters that an attention brings, and those who look."""

from __future__ import annotations

import contextlib
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from rela.attention.functional import Attended, attend, concat_heads
from rela.attention.key_values import KeyValues
from rela.attention.maps import ALPHA_MIN, alpha_from_logit
from rela.attention.masks import Mask
from rela.attention.norms import GatedRMSNorm, LayerNorm, RMSNorm, build_norm
from rela.attention.projections import has_hooks
from rela.attention.spec import AttentionSpec

_OWN: Final = ("norm.", "threshold", "alpha_logit")
_IN_PLACE_NORMS: Final = (RMSNorm, GatedRMSNorm)
_ALPHA_START: Final = 1.5
_ALPHA_LOGIT_START: Final = math.log((_ALPHA_START - ALPHA_MIN) / (2.0 - _ALPHA_START))


class Observation(NamedTuple):
    """What an observer sees of one forward pass: all ``[B, H, Tq, Tk]``, ``allowed`` merely broadcasts to it.

    Observers that do not ask for the scores may find none.
    """

    scores: Tensor | None
    weights: Tensor
    allowed: Tensor | None


Observer = Callable[["Heads", Observation], None]


class _Watcher(NamedTuple):
    """An observer, and whether it wants the scores."""

    observer: Observer
    scores: bool


class Heads(nn.Module):
    """Heads that are projected already attend; their outputs are concatenated and normed.

    Modules that have projections are made of it: they call :meth:`_make_own_parameters` when they have set
    ``attention``.
    """

    attention: AttentionSpec
    norm: RMSNorm | GatedRMSNorm | LayerNorm | None
    threshold: nn.Parameter | None
    alpha_logit: nn.Parameter | None

    def _make_own_parameters(
        self, num_heads: int, head_dim: int, device: torch.device | str | None, dtype: torch.dtype | None
    ) -> None:
        """What the attention brings: a norm over all heads together, and numbers for each head."""
        self._observers: OrderedDict[int, _Watcher] = OrderedDict()  # handles hold it weakly: not a plain dict
        self._silent: tuple[int, ...] = ()
        self.norm = build_norm(self.attention, num_heads * head_dim, head_dim, device=device, dtype=dtype)

        def by_head() -> nn.Parameter:
            return nn.Parameter(torch.empty(num_heads, device=device, dtype=dtype))

        self.threshold = by_head() if self.attention.learn_threshold else None
        self.alpha_logit = by_head() if self.attention.map == "entmax" else None
        self._reset_by_head()

    def reset_own_parameters(self, device: torch.device | None = None) -> None:
        """Start the parameters that the attention brings anew, on ``device`` if they are to move."""
        if self.norm is not None:
            if device is not None:
                self.norm.to_empty(device=device)
            self.norm.reset_parameters()
        for name in ("threshold", "alpha_logit"):
            parameter = getattr(self, name)
            if parameter is not None and device is not None:
                setattr(self, name, nn.Parameter(torch.empty_like(parameter, device=device)))
        self._reset_by_head()

    def _reset_by_head(self) -> None:
        if self.threshold is not None:
            nn.init.constant_(self.threshold, self.attention.threshold)
        if self.alpha_logit is not None:
            nn.init.constant_(self.alpha_logit, _ALPHA_LOGIT_START)

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that the attention brings, by name: softmax has none."""
        return {name: p for name, p in self.named_parameters() if name.startswith(_OWN)}

    # ------------------------------------------------------------------ looking in

    def register_observer(self, observer: Observer, *, scores: bool = True) -> RemovableHandle:
        """Call ``observer(module, Observation(scores, weights, allowed))`` in every forward pass from now on.

        While there are observers the weights are computed in full. Without ``scores``, kernels that can show the
        weights may go on working, which is faster. The handle's ``remove()`` ends it.
        """
        handle = RemovableHandle(self._observers)
        self._observers[handle.id] = _Watcher(observer, scores)
        return handle

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have no observers: those watch this module, and may hold graphs that cannot be copied."""
        return {**self.__dict__, "_observers": OrderedDict(), "_silent": ()}

    def share_observers(self, other: Heads) -> None:
        """Have the same observers as another module; their handles remove from both."""
        self._observers = other._observers

    @contextlib.contextmanager
    def silenced(self, heads: Collection[int]) -> Generator[None]:
        """Inside, these heads' slices of the concatenated heads are exactly zero, before the norm.

        For every user of the module, for that time. Weights are shown as they are without it.
        """
        before = self._silent
        self._silent = (*before, *heads)
        try:
            yield
        finally:
            self._silent = before

    # ------------------------------------------------------------------ inside

    def _attend_heads(
        self,
        query: Tensor,
        memory: KeyValues,
        mask: Mask,
        dropout_p: float,
        need_weights: bool,
        shifts: Tensor | None = None,
        scale: float | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """From heads, to which ``shifts`` are still to be added, to ``[B, Tq, E]`` and the weights on request.

        Half precision comes out as float32. ``scale`` is in the place of the attention's, if that has none.
        """
        observed = bool(self._observers)
        spec = (
            self.attention
            if scale is None or self.attention.scale is not None
            else replace(self.attention, scale=scale)
        )
        attended = attend(
            query,
            memory.keys,
            memory.values,
            spec,
            mask,
            dropout_p=dropout_p,
            threshold=self.attention.threshold if self.threshold is None else self.threshold,
            alpha=_ALPHA_START if self.alpha_logit is None else alpha_from_logit(self.alpha_logit),
            need_weights=need_weights or observed,
            need_scores=self._watches_scores(),
            shifts=shifts,
        )
        if observed:
            self._notify(attended, mask, query, memory)
        output = attended.output
        if self._silent:
            output = output.index_fill(1, torch.tensor(self._silent, device=output.device), 0.0)
        hidden = concat_heads(output)  # [B, Tq, E]
        if self.norm is not None:
            in_place = type(self.norm) in _IN_PLACE_NORMS and not torch.is_grad_enabled() and not has_hooks(self.norm)
            hidden = self.norm(hidden, inplace=True) if in_place else self.norm(hidden)  # nobody else has it
        return hidden, attended.weights if need_weights else None

    def _notify(self, attended: Attended, mask: Mask, query: Tensor, memory: KeyValues) -> None:
        assert attended.weights is not None
        allowed = mask.all_allowed(query.shape[-2], memory.length, query.device)
        for watcher in tuple(self._observers.values()):
            watcher.observer(self, Observation(attended.scores, attended.weights, allowed))

    def _watches_scores(self) -> bool:
        return any(watcher.scores for watcher in self._observers.values())
