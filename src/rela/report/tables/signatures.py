"""Many signatures in few lines, and none lost: what differs between them stands in braces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

_Fields = tuple[str, ...]


def shorten(signatures: Iterable[str]) -> list[str]:
    """The same signatures in fewer lines: ``null|kind:{encoder,cross}|v1`` stands for both that it spells.

    Braces are a product: a line stands for every choice of one value from each. So the lines are exactly the
    signatures, each once.

    >>> shorten(["aer|rule:any|v1", "aer|rule:merged|v1"])
    ['aer|rule:{any,merged}|v1']
    """
    by_form: dict[_Fields, list[_Fields]] = {}
    for signature in dict.fromkeys(signatures):
        fields = tuple(signature.split("|"))
        # Fields are compared by their keys; one without a key, such as the name or the version, by its place.
        form = tuple(field.partition(":")[0] if ":" in field else f":{place}" for place, field in enumerate(fields))
        by_form.setdefault(form, []).append(fields)
    return [line for members in by_form.values() for line in _merge(members)]


def _merge(members: Sequence[_Fields]) -> list[str]:
    """Signatures of the same form as few products."""
    values = [tuple(dict.fromkeys(column)) for column in zip(*members, strict=True)]
    varying = [place for place, found in enumerate(values) if len(found) > 1]
    product = 1
    for place in varying:
        product *= len(values[place])
    if product == len(members) and all(map(_fits_braces, itertools.chain.from_iterable(values[p] for p in varying))):
        return ["|".join(map(_braces, values))]
    splits = (_parts(members, place) for place in varying)
    ways = [[_merge(part) for part in parts] for parts in splits if len(parts) > 1]
    return list(itertools.chain.from_iterable(min(ways, key=lambda way: sum(map(len, way)))))


def _parts(members: Sequence[_Fields], place: int) -> list[list[_Fields]]:
    """Members split by their value at a place; values that everything else goes with alike stay together."""
    by_value: dict[str, list[_Fields]] = {}
    for member in members:
        by_value.setdefault(member[place], []).append(member)
    parts: dict[object, list[_Fields]] = {}
    for value, found in by_value.items():
        rest = frozenset(member[:place] + member[place + 1 :] for member in found)
        parts.setdefault(rest if _fits_braces(value) else value, []).extend(found)
    return list(parts.values())


def _fits_braces(value: str) -> bool:
    """Whether a value can stand in a list in braces and be told from its neighbours."""
    return not set(",{}") & set(value)


def _braces(values: Sequence[str]) -> str:
    if len(values) == 1:
        return values[0]
    key, colon, _ = values[0].partition(":")
    shown = [value.partition(":")[2] for value in values] if colon else list(values)
    return f"{key}:{{{','.join(shown)}}}" if colon else f"{{{','.join(shown)}}}"
