"""The service does what its own description says, whatever it is sent: schemathesis tries."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serving.served import make_models, served

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,negative_data_rejection"
)


@pytest.mark.slow
def test_what_it_says_is_what_it_does(tmp_path: Path):
    model = make_models(tmp_path / "made", "rela-g")["rela-g"]
    program = Path(sys.executable).with_name("schemathesis")
    with served(model, "--threads", "1") as (address, _):
        command = [program, "run", f"{address}/openapi.json", "--checks", CHECKS, "--max-examples", "100"]
        environment = {**os.environ, "NO_COLOR": "1"}
        done = subprocess.run(
            [*command, "--seed", "1", "--continue-on-failure"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
