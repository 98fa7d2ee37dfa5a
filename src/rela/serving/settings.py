"""What a service is told when it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of a service.

    Attributes:
        models: folders by name; the first one answers where no model is named.
        token: what clients must send as ``Authorization: Bearer TOKEN``; None: nothing.
        origins: whose pages may call the service from a browser; its own page always may.
        hosts: names by which clients may call the service; (): any. A page of elsewhere cannot feign one, not even by a
            name of its own that leads to this machine.
        queue: sentences that may wait.
        batch: sentences that are computed together, at most.
        sentences: of a request, at most.
        characters: of a sentence, at most.
        body: bytes of a request, at most.
        work: of a request, at most, and of what is computed together: pieces of the sources, times the beam, or pieces
            of both sides of pairs that are scored.
        looks: weights between pieces that a request may look at, at most.
        timeout: seconds that a request may take, and seconds that its answer may take to be read.
        beam: the widest search that may be asked for.
        threads: of a worker's computations; None: torch's.
        precision: of the weights, as for `rela.Translator`.
    """

    models: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    queue: int = 512
    batch: int = 64
    sentences: int = 64
    characters: int = 4000
    body: int = 1 << 20
    work: int = 1 << 15
    looks: int = 1 << 21
    timeout: float = 30.0
    beam: int = 12
    threads: int | None = None
    precision: str = "fp32"

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("models: expected at least one, got none")
        for name in ("queue", "batch", "sentences", "characters", "body", "work", "looks", "beam"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.token is not None and not _fits_header(self.token):
            raise ValueError(
                "token: expected one that a header can carry, got none, or blanks at its ends, or signs that are not "
                "printed; choose another, or leave it out"
            )
        if not 0 < self.timeout < math.inf:
            raise ValueError(f"timeout: expected more than 0 seconds and an end, got {self.timeout}")


def _fits_header(token: str) -> bool:
    return bool(token) and token == token.strip() and token.isprintable()
