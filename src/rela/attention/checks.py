"""Refusing wrong inputs: what was expected, what came, what to do."""

from __future__ import annotations

import math
import numbers

import torch
from torch import Tensor

from rela.attention.kernels import traced_or_transformed
from rela.attention.key_values import KeyValues
from rela.attention.masks import Causal, Mask, causal_offset, split_mask
from rela.attention.precision import autocast_enabled


def checked_mask(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: Causal, enable_gqa: bool
) -> Mask:
    """The mask in our form, after everything about the inputs ``[..., H, T, d]`` has been checked."""
    _check_inputs(query, key, value, enable_gqa)
    num_queries, num_keys = query.shape[-2], key.shape[-2]
    if attn_mask is not None:
        check_device("attn_mask", attn_mask, query)
        full = (*_batch_shape(query, key), num_queries, num_keys)
        if not _broadcasts(attn_mask.shape, full):
            raise ValueError(
                f"attn_mask: expected a shape that broadcasts to [..., H, Tq, Tk] = {full}, got "
                f"{tuple(attn_mask.shape)}; a mask of keys [B, Tk] becomes mask[:, None, None, :], one of each "
                "sentence's places [B, Tq, Tk] mask[:, None]"
            )
    mask = split_mask(attn_mask, true_means="allowed")
    return mask._replace(causal_offset=causal_offset(is_causal, num_queries, num_keys))


def by_head(name: str, number: float | Tensor, query: Tensor) -> float | Tensor:
    """A number for all heads, or a tensor ``[H]`` with one for each, made to broadcast against the scores."""
    if not isinstance(number, Tensor):
        is_number = type(number) is float or isinstance(number, numbers.Real)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_number or not -math.inf < number < math.inf:  # in words that torch.compile follows
            raise ValueError(f"{name}: expected a finite number, or a tensor with one for each head; got {number!r}")
        return number
    check_device(name, number, query)
    number = number.to(query.dtype if query.dtype == torch.float64 else torch.float32)
    num_heads = query.shape[-3] if query.dim() >= 3 else 1
    if query.dim() < 3 and number.numel() == 1:
        return number.reshape(())
    if number.dim() == 1 and number.shape[0] == num_heads:
        return number[:, None, None]
    if number.dim() == 0 or number.shape == (num_heads, 1, 1):
        return number
    raise ValueError(
        f"{name}: expected a number or a tensor with one for each of {num_heads} heads, got shape {tuple(number.shape)}"
    )


def check_device(name: str, tensor: Tensor, query: Tensor) -> None:
    """Refuse what is no tensor, or lies elsewhere than the query."""
    check_tensors(**{name: tensor})
    if tensor.device != query.device:
        raise ValueError(
            f"{name}: expected it on the query's device {query.device}, got {tensor.device}; move it with "
            f".to(query.device)"
        )


def check_probability(name: str, value: object) -> None:
    """Refuse what is no number between 0 and 1."""
    is_number = type(value) is float or isinstance(value, numbers.Real)  # the first is much faster
    if not is_number or not 0.0 <= float(value) <= 1.0:  # pyright: ignore[reportArgumentType]
        raise ValueError(f"{name}: expected a probability between 0 and 1, got {value!r}")


def check_alpha(alpha: float | Tensor) -> None:
    """Refuse the alphas for which entmax is not defined."""
    if isinstance(alpha, Tensor):
        too_small = not traced_or_transformed() and not bool((alpha > 1).all())
    else:
        too_small = not isinstance(alpha, numbers.Real) or not alpha > 1
    if too_small:
        raise ValueError(f"alpha: expected more than 1 (1 is softmax, 2 is sparsemax), got {alpha}; use map='softmax'")


def check_tensors(**inputs: object) -> None:
    """Refuse lists and arrays, and tensors that are not dense."""
    for name, x in inputs.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected a torch.Tensor, got {type(x).__name__}; make one with torch.as_tensor")
        if x.is_sparse or x.is_sparse_csr or x.is_mkldnn:
            raise TypeError(f"{name}: expected a dense tensor, got one of layout {x.layout}; use {name}.to_dense()")


def check_batched(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse inputs of a module that are neither all batched nor all unbatched."""
    if not query.dim() == key.dim() == value.dim() or query.dim() not in (2, 3):
        raise ValueError(
            "expected query, key and value all batched (3 dimensions) or all unbatched (2), got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}; unsqueeze the batch where it is missing"
        )


def check_memory(memory: object, query: Tensor, num_heads: int, head_dim: int) -> None:
    """Refuse projected keys and values that are not of this module, batch, device and dtype."""
    if not isinstance(memory, KeyValues):
        raise TypeError(
            f"memory: expected rela.KeyValues, got {type(memory).__name__}; make them with this module's "
            "project_keys_values or step"
        )
    keys, values = memory
    check_tensors(keys=keys, values=values)
    expected = (query.shape[0], num_heads, keys.shape[-2] if keys.dim() > 1 else 0, head_dim)
    if keys.shape != expected or values.shape != expected:
        raise ValueError(
            f"memory: expected keys and values [B, H, T, d] = {expected}, got {tuple(keys.shape)} and "
            f"{tuple(values.shape)}; make them with this module's project_keys_values or step, for the same batch"
        )
    check_device("memory", keys, query)
    if keys.dtype != values.dtype or (torch.float64 in {keys.dtype, query.dtype} and keys.dtype != query.dtype):
        raise ValueError(
            f"memory: expected keys and values of the query's dtype {query.dtype}, got {keys.dtype} and {values.dtype}"
        )


def check_unbatched_padding(mask: Tensor, num_keys: int) -> None:
    """Refuse a padding mask of unbatched input that is not one row."""
    check_tensors(key_padding_mask=mask)
    if mask.shape != (num_keys,):
        raise ValueError(
            f"key_padding_mask: expected shape [Tk] = {(num_keys,)}, since the input has no batch dimension, got "
            f"{tuple(mask.shape)}; squeeze the mask, or unsqueeze the input"
        )


def check_module_sizes(embed_dim: int, num_heads: int, kdim: int, vdim: int) -> None:
    """Refuse sizes of a module that are not whole, not positive, or not a whole number of heads."""
    sizes = {"embed_dim": embed_dim, "num_heads": num_heads, "kdim": kdim, "vdim": vdim}
    for name, size in sizes.items():
        if not isinstance(size, numbers.Integral) or size < 1:
            raise ValueError(f"{name}: expected a whole number, at least 1, got {size!r}")
    if embed_dim % num_heads != 0:
        fitting = [str(n) for n in range(1, min(embed_dim, 64) + 1) if embed_dim % n == 0]
        raise ValueError(
            f"expected embed_dim to be a multiple of num_heads, got embed_dim={embed_dim}, num_heads={num_heads}; "
            f"numbers of heads that fit: {', '.join(fitting)}"
        )


def check_query(query: Tensor, embed_dim: int) -> None:
    """Refuse a query for the decoding forms that is not ``[B, T, E]``."""
    check_tensors(query=query)
    if query.dim() != 3 or query.shape[-1] != embed_dim:
        raise ValueError(
            f"query: expected [B, T, {embed_dim}], got {tuple(query.shape)}; here the batch comes first, whatever "
            "batch_first says"
        )


def check_placement(weight: Tensor, inputs: dict[str, Tensor]) -> None:
    """Refuse inputs of a module with another device or dtype than its weight."""
    for name, x in inputs.items():
        if x.device != weight.device:
            raise ValueError(
                f"{name}: expected it on the module's device {weight.device}, got {x.device}; move one of them with "
                ".to()"
            )
    got = {name: x.dtype for name, x in inputs.items()}
    casts = autocast_enabled(weight.device)
    if any(dtype != weight.dtype and not (casts and dtype.is_floating_point) for dtype in got.values()):
        raise ValueError(
            f"expected {', '.join(got)} of the module's dtype {weight.dtype}, got {', '.join(map(str, got.values()))}; "
            f"convert them with .to({weight.dtype}), or the module with .to(query.dtype)"
        )


def check_sizes(query: Tensor, key: Tensor, value: Tensor, expected: tuple[int, int, int], batch_first: bool) -> None:
    """Refuse inputs of a module, here ``[B, T, E]``, whose sizes are not the module's or do not fit each other."""
    sizes = (query.shape[-1], key.shape[-1], value.shape[-1])
    if sizes != expected:
        names = ", ".join(f"{n}={size}" for n, size in zip(("embed_dim", "kdim", "vdim"), expected, strict=True))
        raise ValueError(
            f"expected query, key and value of sizes {names}, got {sizes}; give the module the sizes of its inputs"
        )
    if key.shape[:2] != value.shape[:2] or query.shape[0] != key.shape[0]:
        layout = "[B, T, E]" if batch_first else "[T, B, E]"
        raise ValueError(
            f"expected {layout} inputs with one batch size, and as many keys as values; got (batch, length) query "
            f"{tuple(query.shape[:2])}, key {tuple(key.shape[:2])}, value {tuple(value.shape[:2])}; "
            f"is batch_first={batch_first} what you mean?"
        )


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    check_tensors(query=query, key=key, value=value)
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.dim() == key.dim() == value.dim() or query.dim() < 2:
        raise ValueError(
            f"expected query, key and value [..., H, T, d] with equally many dimensions, got {shapes}; unsqueeze what "
            "is missing"
        )
    for name, tensor in (("key", key), ("value", value)):
        check_device(name, tensor, query)
    if not query.dtype == key.dtype == value.dtype or not query.is_floating_point():
        raise ValueError(
            f"expected query, key and value of one float dtype, got {query.dtype}, {key.dtype} and {value.dtype}; "
            "convert them with .to(query.dtype)"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"expected queries and keys of one head size, got {query.shape[-1]} and {key.shape[-1]}: {shapes}; "
            "project both to the same size"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"expected as many keys as values, got {key.shape[-2]} and {value.shape[-2]}: {shapes}; each key needs the "
            "value that it stands for"
        )
    if query.dim() >= 3:
        _check_heads("key", query.shape[-3], key.shape[-3], enable_gqa, shapes)
        _check_heads("value", query.shape[-3], value.shape[-3], enable_gqa, shapes)
        if query.shape[-3] == 1:
            _check_heads("value", key.shape[-3], value.shape[-3], False, shapes)
    if query.shape[:-3] == key.shape[:-3] == value.shape[:-3]:
        return
    try:
        torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    except RuntimeError:
        raise ValueError(f"expected batch dimensions that broadcast, got {shapes}; expand them to one shape") from None


def _check_heads(name: str, num_heads: int, num_others: int, enable_gqa: bool, shapes: str) -> None:
    if _fits(num_others, num_heads) or num_heads == 1:
        return
    if not enable_gqa:
        raise ValueError(
            f"expected as many {name} heads as query heads, got {num_heads} and {num_others}: {shapes}; for "
            "grouped-query attention pass enable_gqa=True"
        )
    if num_others == 0 or num_heads % num_others != 0:
        raise ValueError(
            f"enable_gqa: expected the number of query heads to be a multiple of the number of {name} heads, got "
            f"{num_heads} and {num_others}"
        )


def _batch_shape(query: Tensor, key: Tensor) -> tuple[int, ...]:
    if query.dim() < 3:
        return ()
    same = query.shape[:-3] == key.shape[:-3]
    batch = query.shape[:-3] if same else torch.broadcast_shapes(query.shape[:-3], key.shape[:-3])
    return (*batch, query.shape[-3] if query.shape[-3] != 1 else key.shape[-3])


def _broadcasts(shape: tuple[int, ...], full: tuple[int, ...]) -> bool:
    ends = zip(reversed(shape), reversed(full), strict=False)
    return len(shape) <= len(full) and all(_fits(size, whole) for size, whole in ends)


def _fits(size: int, whole: int) -> bool:
    """True if one broadcasts to the other. Not by `in`, which torch.compile takes for identity of varying lengths."""
    return size == 1 or size == whole
