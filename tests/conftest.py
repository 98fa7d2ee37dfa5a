"""What all tests share."""

import signal

import hypothesis
import pytest

# The same examples on every machine and in every run: a failure in one place can be seen in another.
# No deadline: the machine that runs the tests may be busy with something else.
hypothesis.settings.register_profile("rela", deadline=None, derandomize=True)
hypothesis.settings.load_profile("rela")

# What is started in the background ignores Ctrl-C, and passes that on to the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what the tests of the documents ran and what they left out."""
    reports = terminalreporter.getreports("passed")
    lines = [value for report in reports for key, value in report.user_properties if key == "code blocks"]
    if lines:
        terminalreporter.section("code blocks in the documents")
    for line in lines:
        terminalreporter.line(line)
