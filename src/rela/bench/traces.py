"""Queries, keys and values of a trained model on real sentences: what its attentions compute with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rela.alignment.pairs import PairBatch, by_length, encode_pairs
from rela.attention.multihead import MultiheadAttention
from rela.attention.spec import KINDS
from rela.bench.cases import NEVER_UNDER, Call
from rela.model.transformer import Transformer, evaluating
from rela.text.store import Tokenizers

_BATCHES: Final = 4


class _Seen(NamedTuple):
    """Heads as the projections leave them, and where keys are padding, if somewhere."""

    query: Tensor
    key: Tensor
    value: Tensor
    padding: Tensor | None
    is_causal: bool


@dataclass(frozen=True, kw_only=True)
class Trace:
    """All calls of one kind of attention in some batches."""

    label: str
    signature: str
    seen: tuple[_Seen, ...]

    @property
    def target(self) -> float:
        """The speed over torch's that is asked for."""
        return NEVER_UNDER

    def calls(self, *, gradients: bool) -> Iterator[Call]:
        """One for each layer and batch."""
        for query, key, value, padding, is_causal in self.seen:
            options: dict[str, Any] = {"is_causal": True} if is_causal else {}
            if padding is not None:
                options["attn_mask"] = ~padding[:, None, None, :]
            query, key, value = (part.detach().requires_grad_(gradients) for part in (query, key, value))
            yield Call(query=query, key=key, value=value, options=options)


@torch.no_grad()
def collect(model: Transformer, tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]], name: str) -> list[Trace]:
    """The calls of each kind of attention while the model reads some batches of these pairs, as it would to align."""
    encoded = list(encode_pairs(tokenizers, ((number, *pair) for number, pair in enumerate(pairs, start=1))))
    batches = [PairBatch([encoded[place] for place in places]) for places in by_length(encoded)]
    step = max(1, len(batches) // _BATCHES)  # from short sentences to long ones
    batches = batches[::step][:_BATCHES]
    found: list[Trace] = []
    with evaluating(model):
        for kind in KINDS:
            seen: list[_Seen] = []
            handles = [
                module.register_forward_pre_hook(_hook(seen), with_kwargs=True) for module in model.attentions()[kind]
            ]
            try:
                for batch in batches:
                    model(batch.source, batch.target_in)
            finally:
                for handle in handles:
                    handle.remove()
            shapes = ", ".join(f"{tuple(one.query.shape[:3])}" for one in seen[:: len(handles)])
            signature = f"model:{name}|attention:{model.config.attention.label}|kind:{kind}|batch,heads,length:{shapes}"
            size = seen[0].query.shape[-1]
            found.append(Trace(label=f"trained {kind} d_h={size}", signature=signature, seen=tuple(seen)))
    return found


def _hook(seen: list[_Seen]) -> Any:
    def look(module: MultiheadAttention, inputs: tuple[Tensor, Tensor, Tensor], options: dict[str, Any]) -> None:
        query, key, value = inputs
        memory = module.project_keys_values(key, value)
        weight, bias = module.in_proj_weight, module.in_proj_bias
        assert weight is not None
        size = module.embed_dim
        projected = F.linear(query, weight[:size], None if bias is None else bias[:size])
        heads = projected.unflatten(-1, (module.num_heads, module.head_dim)).transpose(1, 2)
        is_causal = bool(options.get("is_causal", False))
        seen.append(_Seen(heads, memory.keys, memory.values, options.get("key_padding_mask"), is_causal))

    return look
