"""`rela doctor`, on this machine and with packages that are missing or broken."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.helpers import rela

from rela._machine import Cpu
from rela._version import __version__
from rela.cli.doctor import doctor


def test_says_what_is_here():
    done = rela("doctor")
    assert done.returncode == 0, done.stderr
    for label in ("rela", "python", "platform", "cpu", "simd", "compiler", "torch", "entmax", "extra translate"):
        assert f"\n{label} " in f"\n{done.stdout}"
    assert done.stdout.rstrip().endswith("ready")


def test_json_has_the_same_facts():
    import torch

    done = rela("doctor", "--json", "-")
    facts = json.loads(done.stdout)
    assert facts["rela"] == __version__
    assert facts["torch"]["version"] == torch.__version__
    assert facts["torch"]["num_threads"] >= 1
    assert {package["name"] for package in facts["packages"]} == {"torch", "numpy", "entmax"}
    assert facts["problems"] == []


@pytest.mark.slow
def test_names_the_kernel_and_why():
    kernels = json.loads(rela("doctor", "--json", "-", RELA_KERNEL="").stdout)["kernels"]
    best = "native" if shutil.which("cc") else "blocked"
    assert [kernel["name"] for kernel in kernels if kernel["chosen"]] == [best]
    assert all(kernel["reason"] for kernel in kernels)

    kernels = json.loads(rela("doctor", "--json", "-", RELA_KERNEL="", CC="no-such-compiler", PATH="").stdout)[
        "kernels"
    ]
    assert [kernel["name"] for kernel in kernels if kernel["chosen"]] == ["blocked"]
    assert "no C compiler" in next(kernel["reason"] for kernel in kernels if kernel["name"] == "native")

    kernels = json.loads(rela("doctor", "--json", "-", RELA_KERNEL="naive").stdout)["kernels"]
    forced = next(kernel for kernel in kernels if kernel["chosen"])
    assert forced["name"] == "naive"
    assert "RELA_KERNEL" in forced["reason"]


def test_a_kernel_that_does_not_exist_is_a_problem():
    done = rela("doctor", RELA_KERNEL="nonsense")
    assert done.returncode == 1
    assert "nonsense" in done.stdout
    assert "unset RELA_KERNEL" in done.stdout
    assert done.stdout.rstrip().endswith("not ready")


def test_a_forced_kernel_that_cannot_be_built_is_a_problem(tmp_path: Path):
    done = rela("doctor", "--json", "-", RELA_KERNEL="native", CC="/nonexistent", RELA_CACHE=str(tmp_path))
    assert done.returncode == 1
    (problem,) = json.loads(done.stdout)["problems"]
    assert "RELA_KERNEL=native" in problem["what"]
    assert "unset RELA_KERNEL" in problem["remedy"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cc", "reason"),
    [
        ('gcc "', "does not answer --version"),
        ("/bin/false", "does not answer --version"),
        ("echo", "made no file: is it a C compiler?"),
    ],
)
def test_what_is_no_compiler_is_said(cc: str, reason: str, tmp_path: Path):
    done = rela("doctor", "--json", "-", RELA_KERNEL="", CC=cc, RELA_CACHE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    kernels = {kernel["name"]: kernel for kernel in json.loads(done.stdout)["kernels"]}
    assert reason in kernels["native"]["reason"]
    assert kernels["blocked"]["chosen"]


@pytest.mark.parametrize(
    "error", ["OSError('libtorch.so: cannot open')", "RuntimeError('bad build')", "ImportError('no torch')"]
)
def test_torch_that_cannot_be_imported(tmp_path: Path, error: str):
    (tmp_path / "torch.py").write_text(f"raise {error}\n")
    done = rela("doctor", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "broken" in done.stdout
    assert error.partition("'")[2].partition("'")[0] in done.stdout
    assert "pip install --force-reinstall torch" in done.stdout
    assert "reinstall entmax" not in done.stdout  # it only suffers from torch
    assert done.stderr == ""


def test_torch_that_is_missing(tmp_path: Path):
    # A Python without site-packages, to which all packages but torch are put back one by one.
    site = Path(sys.modules["pytest"].__file__ or "").parents[1]
    for entry in site.iterdir():
        if not entry.name.startswith("torch"):
            (tmp_path / entry.name).symlink_to(entry)
    source = Path(sys.modules["rela"].__file__ or "").parents[1]
    done = subprocess.run(
        [sys.executable, "-S", "-c", "from rela.cli import main; main()", "doctor", "--json", "-"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{source}:{tmp_path}"},
    )
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    assert facts["torch"] is None
    assert facts["kernels"] == []
    assert [problem["remedy"] for problem in facts["problems"]] == ["pip install torch"]
    assert "missing" in facts["problems"][0]["what"]


@pytest.mark.slow
def test_names_the_decoder_and_why():
    decoders = json.loads(rela("doctor", "--json", "-", RELA_DECODER="").stdout)["decoders"]
    assert [decoder["name"] for decoder in decoders] == ["native", "torch"]
    assert sum(decoder["chosen"] for decoder in decoders) == 1

    decoders = json.loads(rela("doctor", "--json", "-", RELA_DECODER="torch").stdout)["decoders"]
    forced = next(decoder for decoder in decoders if decoder["chosen"])
    assert forced["name"] == "torch"
    assert "RELA_DECODER" in forced["reason"]

    done = rela("doctor", RELA_DECODER="nonsense")
    assert done.returncode == 1
    assert "unset RELA_DECODER" in done.stdout


@pytest.mark.parametrize("deadly", [True, False])
def test_warns_of_bfloat16_that_kills(
    deadly: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def found(_: Cpu) -> bool:
        return deadly

    monkeypatch.setattr("rela.cli.doctor.bfloat16_is_deadly", found)
    doctor()  # a warning is no failure
    shown = capsys.readouterr().out
    assert ("ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in shown) is deadly
    assert shown.rstrip().endswith("\nready")
