"""What all tests share."""

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

from rela._machine import WITHOUT_AMX, bfloat16_is_deadly, read_cpu

# The process that starts the others asks once; they find the variable set.
if WITHOUT_AMX[0] not in os.environ and "PYTEST_XDIST_WORKER" not in os.environ and bfloat16_is_deadly(read_cpu()):
    os.environ.update([WITHOUT_AMX])

# The same examples on every machine and in every run: a failure in one place can be seen in another.
# No deadline: the machine that runs the tests may be busy with something else.
hypothesis.settings.register_profile("rela", deadline=None, derandomize=True)
hypothesis.settings.load_profile("rela")

# What is started in the background ignores Ctrl-C, and passes that on to the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _compiled_anew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """What torch.compile made of another version of our operators is not taken from the machine's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what the tests of the documents ran and what they left out."""
    reports = terminalreporter.getreports("passed")
    lines = [value for report in reports for key, value in report.user_properties if key == "code blocks"]
    if lines:
        terminalreporter.section("code blocks in the documents")
    for line in lines:
        terminalreporter.line(line)
