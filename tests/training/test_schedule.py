"""Learning rates: exact values."""

import pytest

from rela.training.schedule import RateConfig, learning_rate


@pytest.mark.parametrize("step", [1, 2, 3999, 4000, 4001, 100_000])
def test_noam_is_the_formula_of_the_original(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(RateConfig(), 512, step, 0.3) == pytest.approx(expected, rel=1e-12)


def test_noam_known_values() -> None:
    assert RateConfig().peak_for(512) == pytest.approx(6.987712e-4, rel=1e-6)
    config = RateConfig(warmup=10, peak=0.5)
    assert [learning_rate(config, 512, step, 0) for step in (1, 5, 10, 40)] == pytest.approx([0.05, 0.25, 0.5, 0.25])


@pytest.mark.parametrize(
    ("step", "spent", "expected"), [(1, 0.0, 0.05), (10, 0.09, 0.455), (51, 0.5, 0.25), (100, 1.0, 0.0), (9, 1.5, 0.0)]
)
def test_linear(step: int, spent: float, expected: float) -> None:
    config = RateConfig(schedule="linear", warmup=10, peak=0.5)
    assert learning_rate(config, 512, step, spent) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warmup": 0}, "warmup: expected at least 1 update, got 0"),
        ({"peak": 0.0}, "peak: expected a learning rate above 0 and below 1, got 0.0"),
        ({"peak": 3.0}, "peak: expected a learning rate above 0 and below 1, got 3.0"),
    ],
)
def test_rates_that_make_no_sense(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        RateConfig(**settings)  # pyright: ignore[reportArgumentType]
