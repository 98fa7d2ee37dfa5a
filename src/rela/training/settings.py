"""Settings in sections, which are msgspec's structs: unknown names are refused, and errors are for people."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

Section = type[msgspec.Struct]

_WORDS: Final[dict[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    types.NoneType: "null",
}


def check_keys(data: Mapping[str, Any], section: Section, where: str) -> None:
    """Refuse keys that nobody reads, and name the nearest one that is read."""
    _check_keys(data, section, section, "", where)


def _check_keys(data: Mapping[str, Any], section: Section, whole: Section, prefix: str, where: str) -> None:
    known = typing.get_type_hints(section)
    for key, value in data.items():
        if key not in known:
            here = {name: f"{prefix}{name}" for name in known}
            elsewhere = {**_all_keys(whole), **here}
            close = _nearest(key, here) or _nearest(key, elsewhere)
            hint = f"did you mean `{elsewhere[close]}`?" if close else f"known are {', '.join(known)}"
            raise ValueError(f"{where}: unknown setting `{prefix}{key}`; {hint}")
        inner = _section_of(known[key])
        if inner is not None and isinstance(value, Mapping):
            _check_keys(value, inner, whole, f"{prefix}{key}.", where)


def _nearest(key: object, names: Mapping[str, str]) -> str | None:
    return next(iter(difflib.get_close_matches(str(key), names, n=1)), None)


def _section_of(hint: Any) -> Section | None:
    return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None


def sections_of(section: Section) -> dict[str, Section]:
    """The sections in a section, by name."""
    hints = typing.get_type_hints(section)
    return {name: inner for name, hint in hints.items() if (inner := _section_of(hint)) is not None}


def _all_keys(whole: Section) -> dict[str, str]:
    """Every setting by its last name, for people who forgot the section or took another."""
    found = {name: name for name in typing.get_type_hints(whole)}
    for name, section in sections_of(whole).items():
        found |= {inner: f"{name}.{inner}" for inner in typing.get_type_hints(section) if inner not in found}
    return found


def explain(error: msgspec.ValidationError, data: Mapping[str, Any], whole: Section) -> str:
    """What msgspec found, as ``model.dim: expected a whole number, got 'large'``."""
    message, _, where = str(error).partition(" - at `")
    is_key = where.startswith("key` in ")
    place = where.partition("$")[2].strip("`.")
    hint, value = _look_up(place.split(".") if place else [], data, whole)
    if is_key:
        return f"{place}: expected names of settings, got {value!r}"
    if message.startswith("Object missing required field"):
        name = message.split("`")[1]
        return f"expected the setting `{place + '.' if place else ''}{name}`, which is missing"
    if message.startswith(("Expected `", "Invalid enum value")):
        return f"{place}: expected {_describe(hint)}, got {'null' if value is None else repr(value)}"
    section = _section_of(hint)
    name = message.replace(":", ".").partition(".")[0]
    is_setting = section is not None and name in typing.get_type_hints(section)
    return f"{place}{'.' if is_setting else ': '}{message}" if place else message


def _look_up(keys: list[str], data: Any, hint: Any) -> tuple[Any, Any]:
    """The type and the value at a place."""
    for key in keys:
        section = _section_of(hint)
        hint = None if section is None else typing.get_type_hints(section).get(key)
        data = data.get(key) if isinstance(data, Mapping) else None
    return hint, data


def _describe(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " or ".join(map(str, typing.get_args(hint)))
    if isinstance(hint, types.UnionType):
        return " or ".join(map(_describe, typing.get_args(hint)))
    if typing.get_origin(hint) is typing.Union:
        return " or ".join(map(_describe, typing.get_args(hint)))
    return _WORDS.get(hint, "settings of its own")
