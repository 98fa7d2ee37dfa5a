"""Work of many clients: done together, in order, within limits, and finished when the service ends."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any

import pytest

from rela.serving.batching import Batcher, QueueFullError, TooLateError


class Slow:
    """Doubles numbers, one by one when it is let; remembers its batches."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.may_go.set()
        self.stop_at = 0  # the batch that has to be let anew
        self.begun = 0
        self.batches: list[tuple[Hashable, list[Any]]] = []

    def has_begun(self, batch: int) -> bool:
        return self.begun == batch

    def __call__(self, key: Hashable, items: list[Any], go_on: Callable[[], None]) -> list[Any]:
        if self.begun + 1 == self.stop_at:
            self.may_go.clear()
        self.begun += 1
        assert self.may_go.wait(10)
        go_on()
        self.batches.append((key, items))
        if "bad" in items:
            raise ValueError("a bad item")
        return [2 * item for item in items]


def run(test: Callable[[Batcher, Slow], Awaitable[None]], **options: int) -> Slow:
    compute = Slow()

    async def main() -> None:
        batcher = Batcher(compute, **{"queue_items": 100, "batch_items": 8, "batch_work": 1000, **options})
        batcher.start()
        await test(batcher, compute)
        compute.may_go.set()
        await batcher.close()

    asyncio.run(main())
    return compute


def ask(
    batcher: Batcher, items: list[Any], key: Hashable = "k", timeout: float = 10, work: int = 0
) -> asyncio.Task[list[Any]]:
    return asyncio.ensure_future(batcher.submit(key, items, work=work or len(items), timeout=timeout))


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


def test_what_comes_meanwhile_is_one_batch():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        first = ask(batcher, [1])
        await until(lambda: compute.begun == 1)
        others = [ask(batcher, [number, number + 1]) for number in range(3)]
        await until(lambda: batcher.num_waiting == 6)
        compute.may_go.set()
        assert await first == [2]
        assert [await other for other in others] == [[0, 2], [2, 4], [4, 6]]

    assert [items for _, items in run(test).batches] == [[1], [0, 1, 1, 2, 2, 3]]


def test_only_work_of_one_key_is_done_together():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        asked = [ask(batcher, [0])]
        await until(lambda: compute.begun == 1)
        asked += [ask(batcher, [number], key=number % 2) for number in range(4)]
        await until(lambda: batcher.num_waiting == 4)
        compute.may_go.set()
        await asyncio.gather(*asked)

    assert run(test).batches[1:] == [(0, [0, 2]), (1, [1, 3])]


def test_batches_have_a_limit_and_large_work_is_done_alone():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        asked = [ask(batcher, [0])]
        await until(lambda: compute.begun == 1)
        asked += [ask(batcher, list(range(count))) for count in (2, 2, 9, 1)]
        await until(lambda: batcher.num_waiting == 14)
        compute.may_go.set()
        await asyncio.gather(*asked)

    sizes = [len(items) for _, items in run(test, batch_items=5).batches]
    assert sizes == [1, 5, 9]


def test_batches_have_a_limit_of_work():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        asked = [ask(batcher, [0])]
        await until(lambda: compute.begun == 1)
        asked += [ask(batcher, [work], work=work) for work in (60, 50, 40, 1, 300)]
        await until(lambda: batcher.num_waiting == 5)
        compute.may_go.set()
        await asyncio.gather(*asked)

    assert [items for _, items in run(test, batch_work=100).batches] == [[0], [60, 40], [50, 1], [300]]


def test_what_is_larger_than_the_queue_is_taken_when_nothing_waits():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        asked = [ask(batcher, [0])]
        await until(lambda: compute.begun == 1)
        asked.append(ask(batcher, [1, 2, 3]))
        await until(lambda: batcher.num_waiting == 3)
        with pytest.raises(QueueFullError):
            await ask(batcher, [4])
        compute.may_go.set()
        assert await asyncio.gather(*asked) == [[0], [2, 4, 6]]

    run(test, queue_items=2)


def test_who_was_just_answered_may_join_the_next_batch():
    sizes: list[int] = []

    def compute(_: Hashable, items: list[Any], go_on: Callable[[], None]) -> list[Any]:
        time.sleep(0.2)
        sizes.append(len(items))
        return items

    async def main() -> None:
        batcher = Batcher(compute, queue_items=100, batch_items=8, batch_work=100)
        batcher.start()

        async def client(number: int) -> None:
            await asyncio.sleep(0.05 * number)
            for _ in range(4):
                assert await ask(batcher, [number]) == [number]

        await asyncio.gather(client(1), client(2))
        await batcher.close()

    asyncio.run(main())
    assert sizes[:4] == [1, 2, 2, 2]  # not one by one in turn


def test_who_leaves_while_others_are_waited_for():
    def compute(_: Hashable, items: list[Any], go_on: Callable[[], None]) -> list[Any]:
        time.sleep(1)
        return items

    async def main() -> None:
        batcher = Batcher(compute, queue_items=100, batch_items=8, batch_work=100)
        batcher.start()
        await asyncio.gather(ask(batcher, [1]), ask(batcher, [2]))
        leaving = ask(batcher, [3])
        await asyncio.sleep(0.01)
        assert batcher.num_waiting == 1  # a moment, for the other one of the two
        leaving.cancel()
        await asyncio.sleep(0.2)
        assert await ask(batcher, [4]) == [4]
        await batcher.close()

    asyncio.run(main())


def test_what_is_too_much_is_refused_with_a_time():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        first = ask(batcher, [0])
        await until(lambda: compute.begun == 1)
        second = ask(batcher, [1, 2, 3])
        await until(lambda: batcher.num_waiting == 3)
        with pytest.raises(QueueFullError, match="try again in 1 s") as caught:
            await batcher.submit("k", [4, 5], work=2, timeout=1)
        assert caught.value.retry_after == 1
        compute.may_go.set()
        assert await first == [0]
        assert await second == [2, 4, 6]
        assert await batcher.submit("k", [4, 5], work=2, timeout=1) == [8, 10]  # there is room again

    run(test, queue_items=4)


def test_what_would_be_too_late_is_refused():
    async def test(batcher: Batcher, compute: Slow) -> None:
        for _ in range(2):
            compute.may_go.clear()
            learned, begun = ask(batcher, [0]), compute.begun
            await until(partial(compute.has_begun, begun + 1))
            await asyncio.sleep(0.1)
            compute.may_go.set()
            assert await learned == [0]  # at most ten a second, then
        compute.may_go.clear()
        asked = [ask(batcher, [1])]
        await until(lambda: compute.begun == 3)
        asked.append(ask(batcher, [2], work=999))  # at least 99 seconds, but less than a batch
        await until(lambda: batcher.num_waiting == 1)
        asked.append(ask(batcher, [3], timeout=5))
        await until(lambda: batcher.num_waiting == 2)
        with pytest.raises(QueueFullError) as caught:
            await batcher.submit("k", [4], work=1, timeout=5)
        assert caught.value.retry_after > 10
        asked.append(ask(batcher, [5], timeout=1000))
        await until(lambda: batcher.num_waiting == 3)
        compute.may_go.set()
        assert await asyncio.gather(*asked) == [[2], [4], [6], [10]]

    run(test)


def test_late_work_is_not_done_and_makes_room():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        first = ask(batcher, [0])
        await until(lambda: compute.begun == 1)
        with pytest.raises(TooLateError, match="not done in time"):
            await batcher.submit("k", [7], work=1, timeout=0.05)
        assert batcher.num_waiting == 0
        compute.may_go.set()
        await first

    assert all(7 not in items for _, items in run(test).batches)


def test_a_batch_that_nobody_waits_for_is_stopped():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        late, leaving = ask(batcher, [1], timeout=0.05), ask(batcher, [2])
        await until(lambda: compute.begun == 1)
        leaving.cancel()
        with pytest.raises(TooLateError):
            await late
        compute.may_go.set()
        assert await ask(batcher, [3]) == [6]

    assert [items for _, items in run(test).batches] == [[3]]


def test_a_batch_goes_on_while_one_client_waits():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        first = ask(batcher, [0])
        await until(lambda: compute.begun == 1)
        leaving, patient = ask(batcher, [1]), ask(batcher, [2])
        await until(lambda: batcher.num_waiting == 2)
        compute.stop_at = 2
        compute.may_go.set()
        await until(lambda: compute.begun == 2)
        leaving.cancel()
        await asyncio.sleep(0)
        compute.may_go.set()
        assert await first == [0]
        assert await patient == [4]

    assert [items for _, items in run(test).batches] == [[0], [1, 2]]


def test_work_of_a_client_that_went_away_is_dropped():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        first = ask(batcher, [0])
        await until(lambda: compute.begun == 1)
        leaving = ask(batcher, [7])
        await until(lambda: batcher.num_waiting == 1)
        leaving.cancel()
        await until(lambda: batcher.num_waiting == 0)
        compute.may_go.set()
        await first

    assert all(7 not in items for _, items in run(test).batches)


def test_an_error_is_that_of_its_client_alone():
    async def test(batcher: Batcher, compute: Slow) -> None:
        compute.may_go.clear()
        asked = [ask(batcher, [0])]
        await until(lambda: compute.begun == 1)
        asked += [ask(batcher, items) for items in ([1, 2], ["bad"], [3])]
        await until(lambda: batcher.num_waiting == 4)
        compute.may_go.set()
        first, second, bad, third = await asyncio.gather(*asked, return_exceptions=True)
        assert [first, second, third] == [[0], [2, 4], [6]]
        assert isinstance(bad, ValueError)
        assert batcher.num_items == 4  # those that were computed

    assert [items for _, items in run(test).batches] == [[0], [1, 2, "bad", 3], [1, 2], ["bad"], [3]]


def test_what_was_taken_is_finished_at_the_end():
    compute = Slow()

    async def main() -> None:
        batcher = Batcher(compute, queue_items=100, batch_items=2, batch_work=100)
        batcher.start()
        compute.may_go.clear()
        asked = [ask(batcher, [number]) for number in range(7)]
        await asyncio.sleep(0.02)
        ending = asyncio.ensure_future(batcher.close())
        await asyncio.sleep(0.02)
        with pytest.raises(QueueFullError):
            await batcher.submit("k", [9], work=1, timeout=1)
        compute.may_go.set()
        await ending
        assert [task.result() for task in asked] == [[2 * number] for number in range(7)]

    asyncio.run(main())
