"""Devices: those that compute here, and what is said of all others."""

from typing import Any

import pytest
import torch

from rela._device import checked_device


def test_the_processor():
    assert checked_device("cpu") == checked_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["nonsense", "", "cpu:x", "gpu", "meta"])
def test_no_device(name: str):
    with pytest.raises(ValueError, match=f"^device: expected cpu, cuda or cuda:1, got '{name}'; use cpu"):
        checked_device(name)


@pytest.mark.parametrize("name", ["cuda:99", "xla"])
def test_not_here(name: str):
    with pytest.raises(ValueError, match=rf"^device: expected one that is here, got '{name}' \(.+\); use cpu$"):
        checked_device(name)


@pytest.mark.parametrize("wrong", [None, 0, b"cpu"])
def test_no_name(wrong: Any):
    with pytest.raises(TypeError, match="device: expected a name such as 'cpu'"):
        checked_device(wrong)
