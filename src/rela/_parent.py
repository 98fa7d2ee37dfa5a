"""Processes that end when the one that started them does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def end_with_parent(patience: float = 0.0) -> None:
    """End this process when its parent has ended: one that was killed cannot say so.

    With ``patience``, this process gets SIGTERM first, and so many seconds to finish.
    """
    threading.Thread(target=_wait_for_its_end, args=(patience,), daemon=True).start()


def _wait_for_its_end(patience: float) -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if patience:
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(patience)
    os._exit(1)
