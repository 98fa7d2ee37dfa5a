"""Which pairs subwords are learned from."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from rela.text.sample import find_stride

ITEM = st.lists(st.text("abé ", max_size=8), min_size=1, max_size=2)


def num_bytes(items: list[list[str]]) -> int:
    return sum(len(word.encode()) for word in {word for item in items for text in item for word in text.split()})


@given(st.lists(ITEM, max_size=40), st.integers(1, 60))
def test_the_least_stride_that_fits(items: list[list[str]], limit: int) -> None:
    stride = find_stride(items, word_bytes=limit)
    assert num_bytes(items[::stride]) <= limit or stride >= len(items)
    assert stride == 1 or num_bytes(items[:: stride // 2]) > limit


def test_all_of_small_text() -> None:
    assert find_stride([]) == find_stride([["a b"]]) == find_stride([["a b c", "d"]] * 1000) == 1
    assert find_stride([["long" * 100]], word_bytes=5) == 1


def test_memory_is_that_of_the_sample() -> None:
    tracemalloc.start()
    stride = find_stride(([f"{number:010}"] for number in range(100_000)), word_bytes=10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stride == 128
    assert peak < 1_000_000
