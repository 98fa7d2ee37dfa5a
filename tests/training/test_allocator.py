"""The allocator: asked for both settings, whatever it thinks of the first."""

import ctypes
import sys
from types import SimpleNamespace
from unittest import mock

import pytest

from rela.training.allocator import Kept, keep_memory

_TRIM, _MMAP = -1, -3


def fake(monkeypatch: pytest.MonkeyPatch, *, largest: int, trims: bool = True) -> dict[int, int]:
    """A mallopt that takes an mmap threshold up to ``largest``; what it was set to."""
    found: dict[int, int] = {}

    def mallopt(name: int, value: int) -> int:
        taken = value <= largest if name == _MMAP else trims
        if taken:
            found[name] = value
        return int(taken)

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", mock.Mock(return_value=SimpleNamespace(mallopt=mallopt)))
    return found


@pytest.mark.parametrize(("largest", "expected"), [(2**40, 2**30), (2**30, 2**30), (2**25, 2**25), (2**24, None)])
def test_what_is_refused_stops_nothing_else(
    monkeypatch: pytest.MonkeyPatch, largest: int, expected: int | None
) -> None:
    found = fake(monkeypatch, largest=largest)
    assert keep_memory() == Kept(expected, 2**31 - 1)
    assert (found.get(_MMAP), found[_TRIM]) == (expected, 2**31 - 1)


def test_no_trimming(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, largest=2**40, trims=False)
    assert keep_memory() == Kept(2**30, None)


def test_no_such_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", mock.Mock(return_value=SimpleNamespace()))
    assert keep_memory() == Kept(None, None)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="needs glibc")
def test_the_one_of_this_machine() -> None:
    assert keep_memory() in (Kept(2**30, 2**31 - 1), Kept(2**25, 2**31 - 1))
