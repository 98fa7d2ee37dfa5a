"""Swapping the attention inside an existing model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn
from torch.nn.utils import parametrize

from rela.attention.multihead import MultiheadAttention
from rela.attention.spec import KINDS, AttentionSpec, Kind, resolve

Chooser = Callable[[str, nn.Module], bool]

_HOOKS: Final = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)
_SHARED: Final = (
    "in_proj_weight",
    "q_proj_weight",
    "k_proj_weight",
    "v_proj_weight",
    "in_proj_bias",
    "bias_k",
    "bias_v",
)
_CROSS_NAMES: Final = ("cross", "multihead_attn", "encoder_attn", "enc_dec", "encdec", "src_attn")


@dataclass(frozen=True)
class Conversion:
    """One attention that :func:`convert` swapped."""

    name: str
    kind: Kind | None
    before: str
    after: str
    new_parameters: int

    def __str__(self) -> str:
        place = f"{self.name or 'the module itself'} ({self.kind or 'unknown kind'})"
        return f"{place}: {self.before} -> {self.after}, {self.new_parameters:+,} parameters"


def convert(
    module: nn.Module,
    attention: str | AttentionSpec = "rela-g",
    where: Collection[str] | Chooser = KINDS,
    *,
    report: Callable[[Conversion], object] | None = None,
) -> nn.Module:
    """Swap the attention inside ``module`` and return it; weights are kept, as the same parameter objects.

    Every ``nn.MultiheadAttention`` (and ``rela.MultiheadAttention``) of the chosen kinds becomes a
    ``rela.MultiheadAttention`` with ``attention``. The module is changed in place, unless it is itself an attention.

    Args:
        module: ``nn.Transformer``, one of its parts, or anything that holds ``nn.MultiheadAttention``.
        attention: a preset's name, ``map+norm``, or an :class:`AttentionSpec`.
        where: which kinds: any of "encoder" (encoder self-attention), "decoder" (decoder self-attention) and "cross";
            or a function of (name, module) that says yes or no.
        report: called with a :class:`Conversion` for each swap: ``report=print``, or a list's ``append``.

    The kind comes from the layer (``nn.TransformerEncoderLayer``, ``nn.TransformerDecoderLayer``) or else from the
    names on the way to the attention. If it cannot be told and ``where`` leaves kinds out, that is an error.
    New parameters (the norm's) can be trained, in a frozen model too. An attention of a class that has a ``forward``
    of its own is refused: what that computes would be lost. Convert a whole nn.TransformerEncoder, not one of its
    layers: in eval mode it may set the output to zero at padding, and only a converted encoder is told not to.

    >>> model = rela.convert(nn.Transformer(512, 8), "rela-g", where={"decoder", "cross"}, report=print)
    """
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"module: expected a torch.nn.Module, got {type(module).__name__}")
    spec = resolve(attention)
    places = _places(module)
    if not places:
        raise ValueError(
            f"module: expected at least one nn.MultiheadAttention inside, got {type(module).__name__} without any"
        )
    chosen = [place for place in places if _is_chosen(place, where)]
    if not chosen:
        found = ", ".join(f"{place.name} ({place.kind or 'unknown kind'})" for place in places)
        raise ValueError(
            f"where: expected to choose at least one attention, got {where!r}, which chooses none of: {found}"
        )
    swapped: dict[int, MultiheadAttention] = {}
    conversions: list[Conversion] = []
    for place in chosen:  # all are built before the first is put in: an error leaves the module as it was
        old = place.attention
        if id(old) not in swapped and not (isinstance(old, MultiheadAttention) and old.attention == spec):
            swapped[id(old)] = new = _rebuild(old, spec, place.name)
            conversions.append(_describe(place, new))
    if report is not None:
        for conversion in conversions:
            report(conversion)
    for place in chosen:
        new = swapped.get(id(place.attention))
        if new is not None and place.parent is None:
            return new
        if new is not None:
            setattr(place.parent, place.attribute, new)
    _leave_nested_path(module, set(map(id, swapped.values())))
    return module


def kind_by_name(name: str) -> Kind | None:
    """What the names on the way to an attention tell; None if they do not."""
    for part in reversed(name.lower().split(".")):  # the nearest name that tells decides
        if any(cross in part for cross in _CROSS_NAMES):
            return "cross"
        if ("decoder" in part) != ("encoder" in part):
            return "decoder" if "decoder" in part else "encoder"
    return None


@dataclass(frozen=True)
class _Place:
    """Where an attention hangs."""

    name: str
    parent: nn.Module | None
    attribute: str
    attention: nn.MultiheadAttention | MultiheadAttention

    @property
    def kind(self) -> Kind | None:
        if isinstance(self.parent, nn.TransformerEncoderLayer):
            return "encoder"
        if isinstance(self.parent, nn.TransformerDecoderLayer):
            return "cross" if self.attribute == "multihead_attn" else "decoder"
        return kind_by_name(self.name)


def _places(module: nn.Module) -> list[_Place]:
    """All attentions below ``module``, one entry for each name they go by."""
    kinds = (nn.MultiheadAttention, MultiheadAttention)
    if isinstance(module, kinds):
        return [_Place("", None, "", module)]
    return [
        _Place(f"{prefix}.{attribute}" if prefix else attribute, parent, attribute, child)
        for prefix, parent in module.named_modules(remove_duplicate=False)
        for attribute, child in parent._modules.items()  # pyright: ignore[reportPrivateUsage] (named_children leaves out second names)
        if isinstance(child, kinds)
    ]


def _is_chosen(place: _Place, where: Collection[str] | Chooser) -> bool:
    if callable(where):
        return where(place.name, place.attention)
    if not isinstance(where, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"where: expected kinds out of {', '.join(KINDS)}, or a function; got {where!r}")
    wanted = {where} if isinstance(where, str) else set(where)
    if not wanted or not wanted <= set(KINDS):
        raise ValueError(f"where: expected kinds out of {', '.join(KINDS)}, or a function; got {sorted(wanted)}")
    if wanted == set(KINDS):
        return True
    if place.kind is None:
        raise ValueError(
            f"where: cannot tell whether {place.name or 'the module itself'!r} is encoder, decoder or cross attention; "
            "pass a function of (name, module) that says which to convert"
        )
    return place.kind in wanted


def _rebuild(old: nn.MultiheadAttention | MultiheadAttention, spec: AttentionSpec, name: str) -> MultiheadAttention:
    """Our module around the old one's parameters."""
    _refuse_what_would_be_lost(old, name or "module")
    like = next(old.parameters())
    new = MultiheadAttention(
        old.embed_dim,
        old.num_heads,
        dropout=old.dropout,
        bias=old.in_proj_bias is not None,
        add_bias_kv=old.bias_k is not None,
        add_zero_attn=old.add_zero_attn,
        kdim=old.kdim,
        vdim=old.vdim,
        batch_first=old.batch_first,
        device=torch.device("meta"),
        dtype=like.dtype,
        attention=spec,
    )
    for parameter in _SHARED:
        setattr(new, parameter, getattr(old, parameter))
    new.out_proj.weight, new.out_proj.bias = old.out_proj.weight, old.out_proj.bias
    new.reset_own_parameters(like.device)
    for hooks in _HOOKS:  # the same dictionaries: handles go on to remove from them
        setattr(new, hooks, getattr(old, hooks))
    if isinstance(old, MultiheadAttention):
        new.share_observers(old)
    return new.train(old.training)


def _refuse_what_would_be_lost(old: nn.MultiheadAttention | MultiheadAttention, name: str) -> None:
    """A forward of its own, parameters that are computed from others, parameters that we do not have."""
    kind = MultiheadAttention if isinstance(old, MultiheadAttention) else nn.MultiheadAttention
    if type(old).forward is not kind.forward or "forward" in vars(old):
        raise ValueError(
            f"{name}: expected an attention with {kind.__name__}'s own forward, got {type(old).__name__}, whose "
            "different forward would be lost; leave it out with a function as `where`, or change its class by hand"
        )
    if parametrize.is_parametrized(old) or parametrize.is_parametrized(old.out_proj):
        raise ValueError(
            f"{name}: expected plain parameters, got parametrized ones; remove the parametrization "
            "(torch.nn.utils.parametrize.remove_parametrizations), convert, and add it again"
        )
    known = {*_SHARED, "out_proj.weight", "out_proj.bias"}
    if isinstance(old, MultiheadAttention):
        known |= old.own_parameters().keys()
    odd = sorted({n for n, _ in (*old.named_parameters(), *old.named_buffers())} - known)
    if odd:
        raise ValueError(
            f"{name}: expected {kind.__name__}'s parameters alone, got {', '.join(odd)} too, which would be lost; "
            "undo pruning or weight norm (prune.remove, remove_weight_norm) first and redo it after, or leave this "
            "attention out with a function as `where`"
        )


def _leave_nested_path(module: nn.Module, converted: set[int]) -> None:
    """nn.TransformerEncoder turns padded eval input into nested tensors, whose padding comes back as zeros.

    Then eval and training would differ at the padding, so encoders that hold a converted attention stay padded.
    """
    for encoder in module.modules():
        if isinstance(encoder, nn.TransformerEncoder) and any(id(m) in converted for m in encoder.modules()):
            encoder.use_nested_tensor = False


def _describe(place: _Place, new: MultiheadAttention) -> Conversion:
    before = place.attention.attention.name if isinstance(place.attention, MultiheadAttention) else "softmax"
    added = sum(p.numel() for p in new.own_parameters().values())
    return Conversion(place.name, place.kind, before, new.attention.name, added)
