"""The report needs neither torch nor another room."""

import subprocess
import sys
from pathlib import Path

from tests.report.helpers import write_results

ALONE = """
import sys
from pathlib import Path

class Refuse:
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        other_room = parts[0] == "rela" and len(parts) > 1 and parts[1] != "report" and parts[1][0] != "_"
        if parts[0] == "torch" or other_room:
            raise ImportError(f"{name} is not for the report")

sys.meta_path.insert(0, Refuse())
from rela.report.results import load_results
from rela.report.figures import write_figures
from rela.report.tables import write_tables

results = load_results(Path(sys.argv[1]))
figures, tables = write_figures(results, Path(sys.argv[2])), write_tables(results, Path(sys.argv[2]), paper=True)
assert len(figures.written) == 18 and len(tables.written) == 18, (figures, tables)
assert "torch" not in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""


def test_without_torch_and_other_rooms(tmp_path: Path):
    folder = write_results(tmp_path / "results", layers=2, heads=2, sentences=2, words=4)
    command = [sys.executable, "-W", "error", "-c", ALONE, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
