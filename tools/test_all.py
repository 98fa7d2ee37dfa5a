"""Runs all tests, the slow ones too, and writes their summary to docs/test-all.md.

usage: python tools/test_all.py [-n PROCESSES]

The exit code is pytest's. A part of the tests is not for this program: run pytest itself.
"""

import argparse
import datetime
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "docs" / "test-all.md"


def main() -> int:
    """Runs pytest, passes its output on, and keeps the end of it."""
    parser = argparse.ArgumentParser(description="Runs all tests. For some of them, run pytest itself.")
    parser.add_argument("-n", type=int, metavar="PROCESSES", help="as pytest-xdist has it")
    processes: int | None = parser.parse_args().n
    lines: list[str] = []
    options = [] if processes is None else ["-n", str(processes)]
    command = [sys.executable, "-m", "pytest", "--durations=10", *options]
    commit = describe_commit()  # before the tests, which take long enough for the next commit
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    REPORT.write_text(format_report(commit, summary_of(lines), process.returncode), encoding="utf-8")
    print(f"wrote {REPORT.relative_to(ROOT)}")
    return process.returncode


def describe_commit() -> str:
    """The commit that is tested, and whether files differ from it."""
    commit = git("rev-parse", "--verify", "HEAD")
    if commit is None:
        return "none (not a git checkout with a commit)"
    changed = git("status", "--porcelain", "--", ".", f":!{REPORT.relative_to(ROOT)}")
    return f"{commit} with uncommitted changes" if changed else commit


def git(*arguments: str) -> str | None:
    """What git prints; None when it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def summary_of(lines: list[str]) -> list[str]:
    """pytest's summary: from its first closing section to its last line."""
    titles = ("slowest 10 durations", "short test summary info")
    starts = (number for number, line in enumerate(lines) if line.strip("= ") in titles)
    return lines[next(starts, -1) :]


def format_report(commit: str, summary: list[str], status: int) -> str:
    """The page docs/test-all.md."""
    now = datetime.datetime.now(datetime.UTC)
    body = "\n".join(summary)
    return f"""\
# The last run of all tests

- date: {now:%Y-%m-%d %H:%M} UTC
- commit: {commit}
- result: {"passed" if status == 0 else f"failed (pytest's exit code {status})"}
- with: Python {platform.python_version()}, torch {version("torch")}, {platform.system()} {platform.machine()}
- command: `make test-all`, which also checks style and types first

```text
{body}
```
"""


if __name__ == "__main__":
    sys.exit(main())
