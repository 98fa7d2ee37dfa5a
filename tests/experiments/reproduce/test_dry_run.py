"""What `rela reproduce --dry-run` tells about the paper's own size."""

from pathlib import Path

import msgspec
import pytest

from rela.experiments.reproduce.dry_run import Description, describe_study
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.plan import Wanted
from rela.experiments.reproduce.scales import find_study
from rela.training.config import load_config

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture(scope="module")
def paper() -> Description:
    return describe_study(find_study("wmt14-en-de", "paper"), Wanted(), Places(out=Path("out"), work=Path("work")))


def test_every_setting_has_a_source(paper: Description) -> None:
    settings = {one.name: one for one in paper.settings["wmt14-en-de"]}
    assert settings["optimizer.beta2"].source == "paper"
    assert settings["budget.steps"].source == "authors' code"
    assert settings["batch.tokens"].source == "ours"
    assert settings["translate.beam"].value == 4
    assert settings["batch.update_tokens"].value == 25_000


def test_it_is_the_configuration_that_comes_with_rela(paper: Description) -> None:
    """The printed command uses that file."""
    shipped = msgspec.to_builtins(load_config(CONFIGS / "wmt14-en-de.yaml"))
    ours = msgspec.to_builtins(paper.configs["wmt14-en-de"])
    for config in (shipped, ours):
        for name in ("store", "seed"):
            config.pop(name)
        config["model"].pop("attention")
    assert ours == shipped


def test_parameters_are_those_of_the_paper(paper: Description) -> None:
    assert round(paper.parameters["softmax"] / 1e6, 1) == 72.3
    assert paper.parameters["rela-g"] - paper.parameters["softmax"] == 18_432


def test_commands_and_hours(paper: Description) -> None:
    text = "\n".join(paper.lines())
    assert "torchrun --nproc-per-node 8 -m rela train" in text
    assert "GPU-hours" in text
    assert paper.gpu_hours is not None
    assert 100 < paper.gpu_hours < 100_000
    assert "rela-g-cross-1" in text
