"""Ctrl-C and SIGTERM as a wish to stop at the next good place."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress


class InterruptedRunError(Exception):
    """The training was asked to stop, by a signal, and left a checkpoint to go on from."""

    def __init__(self, signal_number: int = signal.SIGINT) -> None:
        super().__init__()
        self.signal_number = signal_number


class StopRequest:
    """Whether somebody wants training to stop after the update. A second Ctrl-C stops at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.wanted = False
        self.signal_number: int = signal.SIGINT
        self._say = say

    @contextmanager
    def listening(self) -> Generator[None]:
        """Take the signals as wishes; in the main thread only, since others get none. Ignored ones stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        heard = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
        old = {number: signal.signal(number, self._take) for number in heard}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _take(self, number: int, _: object) -> None:
        if self.wanted and number == signal.SIGINT:  # torchrun sends SIGTERM more than once
            raise KeyboardInterrupt
        if not self.wanted:
            self.wanted, self.signal_number = True, number
            with suppress(RuntimeError):  # in the middle of another line
                self._say("stopping after this update; once more to stop at once")
