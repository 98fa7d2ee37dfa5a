"""Runs every Python and bash block of README.md and docs/: what a reader pastes has been run before.

The Python blocks of a page share one namespace, its commands share one folder, and all run in the order of
the page. What is shown but not run is listed in `code_blocks.SKIPPED_COMMANDS` and counted at the end.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs.code_blocks import Block, find_blocks, find_commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
LONG = {"alignment.md", "deploy.md", "huggingface.md", "microscope.md", "quickstart.md"}  # they train models
TIMEOUT_SECONDS = 300
PROGRAMS = str(Path(sys.executable).parent)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in PAGES],
    ids=[str(page.relative_to(ROOT)) for page in PAGES],
)
def test_blocks_of_page(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
):
    (tmp_path / "configs").symlink_to(ROOT / "configs")  # readers are in the project's folder
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", PROGRAMS + os.pathsep + os.environ["PATH"])  # as in an activated environment
    record_property("code blocks", run_page(page))


def run_page(page: Path) -> str:
    """Runs the blocks of a page in the working folder and says how many there were of each kind."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    num_python = num_commands = 0
    skipped: list[str] = []
    for block in find_blocks(page):
        if block.language == "python":
            run_python(block, page, namespace)
            num_python += 1
        elif block.language == "bash":
            for command in find_commands(block, page.name):
                if command.skipped:
                    skipped.append(command.text)
                else:
                    run_command(command.text, f"{page.name}:{command.line}")
                    num_commands += 1
    counts = f"{page.name}: Python blocks run {num_python}, commands run {num_commands}, skipped {len(skipped)}"
    return f"{counts} ({', '.join(skipped)})" if skipped else counts


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> None:
    # The blank lines give the code the line numbers that it has in the page.
    code = "\n" * (block.line - 1) + block.text
    try:
        exec(compile(code, str(page), "exec"), namespace)
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(page)]
        line = frames[-1].lineno if frames else getattr(error, "lineno", block.line)
        pytest.fail(f"{page.name}:{line}: {type(error).__name__}: {error}\n{traceback.format_exc()}")


def run_command(command: str, place: str) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={**os.environ, "PATH": PROGRAMS + os.pathsep + os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    if done.returncode != 0:
        pytest.fail(f"{place}: `{command}` gave exit code {done.returncode}\n{done.stdout}{done.stderr}")


class TestRunner:
    """The runner itself, on made-up pages."""

    @staticmethod
    def run(tmp_path: Path, text: str) -> str:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return run_page(page)

    def test_blocks_share_a_namespace_in_order(self, tmp_path: Path):
        report = self.run(tmp_path, "```python\nx = 1\n```\ntext\n```python\nassert x == 1\n```\n")
        assert report == "page.md: Python blocks run 2, commands run 0, skipped 0"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "one\n\n```python\nx = 1\nassert x == 2, 'differs'\n```\n",
                r"page\.md:5: AssertionError: differs",
            ),
            ("```python\ndef f(:\n```\n", r"page\.md:2: SyntaxError"),
            (
                "```python\ndef f():\n    1 / 0\n```\n\n```python\nf()\n```\n",
                r"page\.md:3: ZeroDivisionError",
            ),
            (
                "```bash\n# comment\nrela nonsense\n```\n",
                r"page\.md:3: `rela nonsense` gave exit code 2",
            ),
        ],
        ids=["assertion", "syntax", "earlier block", "command"],
    )
    def test_a_failure_names_file_and_line(self, tmp_path: Path, text: str, message: str):
        with pytest.raises(pytest.fail.Exception, match=message):
            self.run(tmp_path, text)

    def test_commands_run_or_are_counted_as_skipped(self, tmp_path: Path):
        report = self.run(tmp_path, "```bash\nmake test  # minutes\nrela \\\n    --version\npip install .\n```\n")
        assert report == ("page.md: Python blocks run 0, commands run 1, skipped 2 (make test, pip install .)")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "```bash\nrm -r folder\n```\n",
                r"page\.md:2: expected a `rela` command .*, got 'rm -r folder'",
            ),
            ("\n```py\nx\n```\n", r"page\.md:2: expected a code block in one of .*, got 'py'"),
            ("```\nx\n```\n", r"page\.md:1: expected a code block in one of .*, got ''"),
            ("```python\nx = 1\n", r"page\.md:1: this code block does not end"),
        ],
        ids=["command", "language", "no language", "no end"],
    )
    def test_what_it_does_not_know_is_refused(self, tmp_path: Path, text: str, message: str):
        with pytest.raises(ValueError, match=message):
            self.run(tmp_path, text)
