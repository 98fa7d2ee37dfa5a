"""What the tests of commands share."""

import os
import subprocess
import sys
from pathlib import Path


def rela(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed program, as a user would."""
    return subprocess.run(
        [Path(sys.executable).with_name("rela"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "300", **environment},
    )
