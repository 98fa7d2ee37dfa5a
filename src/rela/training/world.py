"""The processes that train together: one, or those that torchrun started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from rela._device import checked_device
from rela._warn import warn

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among the others."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def join(cls, device: str) -> World:
        """Meet the other processes, if torchrun started this one; else be alone."""
        if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(device=checked_device(device))
        if device == "cuda":  # each process on this machine has one of its own
            device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        wanted = checked_device(device)
        if wanted.type == "cuda":
            torch.cuda.set_device(wanted)
        dist.init_process_group("nccl" if wanted.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), wanted)

    @property
    def is_first(self) -> bool:
        """True for the one process that writes files."""
        return self.rank == 0

    def sum(self, *values: float) -> list[float]:
        """The sums of numbers over all processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def share(self, work: Callable[[], T]) -> T:
        """What ``work`` returns in the first process, in every process. Its error is raised in all: none waits."""
        if self.size == 1:
            return work()
        found: list[Any] = [None, None]
        if self.is_first:
            try:
                found[0] = work()
            except Exception as error:  # raised below, here and in the others
                found[1] = error
        dist.broadcast_object_list(found, src=0, device=self.device)
        if found[1] is not None:
            raise found[1]
        return found[0]

    def any(self, value: bool) -> bool:
        """True if it is true for at least one process."""
        return self.sum(float(value))[0] > 0

    def wait(self) -> None:
        """Until all have come here."""
        if self.size > 1:
            dist.barrier()

    def place(self) -> dict[str, Any]:
        """On what the weights depend besides the configuration."""
        return {"processes": self.size, "threads": torch.get_num_threads(), "device": self.device.type}

    def compare_place(self, before: dict[str, Any]) -> None:
        """Say so if a run goes on in another place: sums have another order, or others draw the random numbers."""
        now = self.place()
        changes = [
            f"{name} {before[name]}, now {now[name]}" for name in now if before.get(name, now[name]) != now[name]
        ]
        if changes:
            warn(f"the run was trained with {'; '.join(changes)}: its weights will not be those of a run without a cut")

    def leave(self) -> None:
        """Part from the others."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def to_device(self, *tensors: Tensor) -> list[Tensor]:
        """Tensors on this process's device."""
        return [tensor.to(self.device, non_blocking=True) for tensor in tensors]
