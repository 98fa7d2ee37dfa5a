"""When a training counts as failed."""

import json
import math

import numpy as np
import pytest

from rela.text.store import Sentences
from rela.text.vocabulary import EOS
from rela.training.config import DivergenceSection
from rela.training.divergence import DivergenceWatch, guessing_loss

NAN = float("nan")


def watch(guessing: float = math.inf, **settings: float) -> DivergenceWatch:
    defaults = {"window": 4, "patience": 10, "max_rise": 2.0, "min_drop": 0.5, "max_skipped": 3}
    return DivergenceWatch(DivergenceSection(**(defaults | settings)), guessing)  # pyright: ignore[reportArgumentType]


def reasons(watching: DivergenceWatch, losses: list[float], norm: float = 1.0) -> list[str | None]:
    return [watching.look(loss, norm) for loss in losses]


def test_a_loss_that_goes_down_is_well() -> None:
    assert reasons(watch(), [9 - 0.1 * step for step in range(50)]) == [None] * 50


def test_a_rise_above_the_lowest_mean() -> None:
    found = reasons(watch(), [5.0] * 4 + [3.0] * 4 + [5.1] * 4)
    assert found[:-1] == [None] * 11
    assert found[-1] == "the loss rose from 3.00 to 5.10 (means of 4 updates)"


def test_one_bad_update_is_no_divergence() -> None:
    assert reasons(watch(), [3.0] * 4 + [9.0] + [2.0] * 8) == [None] * 13


def test_a_loss_that_stays() -> None:
    found = reasons(watch(), [7.0] * 4 + [6.6] * 6)
    assert found[:-1] == [None] * 9
    assert found[-1] == "the loss did not decrease: 7.00 at first, 6.60 at best after 10 updates"


def test_a_loss_that_came_down_may_stay() -> None:
    assert reasons(watch(), [7.0] * 4 + [6.4] * 50) == [None] * 54


def test_a_loss_that_came_down_to_that_of_guessing() -> None:
    """It fell far, by learning how frequent pieces are, and stays there."""
    losses = [9.0] * 4 + [6.8] * 30
    found = reasons(watch(7.0, stuck_after=20), losses)
    assert found[:19] == [None] * 19
    assert found[19] == ("the loss stays at 6.80 after 20 updates; to guess pieces by how frequent they are gives 7.00")
    assert reasons(watch(7.0, stuck_after=20), [9.0] * 4 + [6.4] * 30) == [None] * 34


def test_guessing_by_frequency() -> None:
    """Against the definition: the entropy of what is wanted on average, the end of each sentence among it."""
    ids = [3, 3, 3, 4, 5, 3]
    sentences = Sentences(np.array(ids, np.uint16), np.array([0, 4, 6]))
    counts = {3: 4, 4: 1, 5: 1, EOS: 2}
    for smoothing in (0.0, 0.1):
        wanted = [(1 - smoothing) * counts.get(piece, 0) / 8 + smoothing / 7 for piece in range(7)]
        expected = -sum(share * math.log(share) for share in wanted if share)
        assert guessing_loss(sentences, 7, smoothing) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("loss", "norm", "what"), [(NAN, 1.0, "loss"), (math.inf, 1.0, "loss"), (2.0, NAN, "gradient")]
)
def test_not_a_number_several_times_in_a_row(loss: float, norm: float, what: str) -> None:
    watching = watch()
    assert [watching.look(loss, norm), watching.look(loss, norm), watching.look(2.0, 1.0)] == [None] * 3
    assert watching.skipped == 0
    assert [watching.look(loss, norm) for _ in range(3)] == [
        None,
        None,
        f"the {what} was not a finite number 3 times in a row",
    ]


def test_a_skipped_loss_does_not_enter_the_mean() -> None:
    watching = watch()
    reasons(watching, [3.0, NAN, 3.0, NAN, 3.0, 3.0])
    assert watching.lowest_mean == 3.0
    assert watching.num_updates == 4


@pytest.mark.parametrize("cut", range(0, 12, 3))
def test_a_restored_watch_judges_the_same(cut: int) -> None:
    losses = [5.0, 5.0, NAN, 4.0, 3.0, 3.0, 3.0, 3.0, 5.2, 5.2, 5.2, 5.2]
    whole, first, second = watch(), watch(), watch()
    before = reasons(first, losses[:cut])
    second.restore(json.loads(json.dumps(first.state(), allow_nan=False)))
    assert before + reasons(second, losses[cut:]) == reasons(whole, losses)
    assert second.state() == whole.state()


def test_a_window_of_one() -> None:
    assert reasons(watch(window=1), [5.0, 8.0])[-1] == "the loss rose from 5.00 to 8.00 (means of 1 updates)"
