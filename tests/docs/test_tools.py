"""The tools that write documents."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_report_on_all_tests_is_not_made_of_some():
    report = ROOT / "docs" / "test-all.md"
    before = report.read_bytes()
    for arguments in (["tests/docs"], ["-k", "report"], ["-m", "slow"], ["--lf"]):
        command = [sys.executable, str(ROOT / "tools" / "test_all.py"), *arguments]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    assert report.read_bytes() == before
