from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infuser.errors import InputError
from infuser.viewer.limits import Buckets, BusyError, Limits, ModelThread


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def still_there() -> bool:
    return False


def test_limits_are_settings_that_cannot_change_under_a_running_server() -> None:
    with pytest.raises(FrozenInstanceError):
        Limits().most_waiting = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"), [("burst", 0), ("most_waiting", -1), ("body_seconds", float("nan")), ("most_characters", 0)]
)
def test_a_limit_that_lets_nothing_through_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name}={value}"):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_the_longest_allowed_pair_fits_into_the_largest_allowed_body_however_json_writes_it() -> None:
    limits = Limits(most_characters=300)
    body = json.dumps({"text": "😀" * 300, "pair": "\x00" * 300, "off": [], "layer": "strongest", "head": None})
    assert len(body) > 300 * 12 and len(body) <= limits.most_bytes


def test_a_client_may_ask_a_burst_and_then_at_the_rate() -> None:
    clock = Clock()
    buckets = Buckets(Limits(requests_per_second=2, burst=3), clock)
    assert [buckets.wait("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.wait("a") == pytest.approx(0.5)
    clock.now += 0.25
    assert buckets.wait("a") == pytest.approx(0.25)
    clock.now += 0.25
    assert buckets.wait("a") == 0
    assert buckets.wait("a") > 0


def test_one_client_does_not_use_up_what_another_may_ask() -> None:
    buckets = Buckets(Limits(burst=1), Clock())
    assert buckets.wait("a") == 0 and buckets.wait("a") > 0 and buckets.wait("b") == 0


def test_a_long_pause_gives_one_burst_and_no_more() -> None:
    clock = Clock()
    buckets = Buckets(Limits(requests_per_second=10, burst=2), clock)
    buckets.wait("a")
    clock.now += 1e6
    assert [bool(buckets.wait("a")) for _ in range(3)] == [False, False, True]


def test_so_many_addresses_are_remembered_and_those_who_keep_asking_are_not_forgotten() -> None:
    buckets = Buckets(Limits(burst=1), Clock())
    for at in range(5_000):
        buckets.wait(f"10.0.{at // 256}.{at % 256}")
        buckets.wait("greedy")
    assert len(buckets) == 1_024
    assert buckets.wait("greedy") > 0


@given(st.lists(st.floats(0, 3), min_size=1, max_size=60), st.floats(0.1, 50), st.integers(1, 20))
def test_no_pace_gets_more_answers_than_burst_and_rate_allow(pauses: list[float], rate: float, burst: int) -> None:
    clock = Clock()
    buckets = Buckets(Limits(requests_per_second=rate, burst=burst), clock)
    answered = 0
    for pause in pauses:
        clock.now += pause
        answered += buckets.wait("a") == 0
    assert answered <= burst + rate * sum(pauses) + 1e-6


def test_work_is_done_one_piece_after_the_other_in_the_order_asked_and_in_one_thread() -> None:
    inside, order, threads = [0], list[int](), set[str]()

    def work(number: int) -> int:
        inside[0] += 1
        assert inside[0] == 1
        order.append(number)
        threads.add(threading.current_thread().name)
        inside[0] -= 1
        return number * number

    async def ask() -> list[int | None]:
        model = ModelThread(64)
        return await asyncio.gather(*(model.run(lambda n=n: work(n), still_there) for n in range(20)))  # type: ignore[misc]

    assert asyncio.run(ask()) == [number * number for number in range(20)]
    assert order == list(range(20)) and len(threads) == 1
    assert threads != {threading.current_thread().name}


def test_what_nobody_waits_for_any_more_is_not_done() -> None:
    done = []

    async def gone() -> bool:
        return True

    async def ask() -> list[None]:
        model = ModelThread(64)
        return await asyncio.gather(
            model.run(lambda: done.append("first"), still_there),
            model.run(lambda: done.append("left"), gone),
            model.run(lambda: done.append("last"), still_there),
        )

    assert asyncio.run(ask()) == [None, None, None] and done == ["first", "last"]


def test_more_than_may_wait_are_turned_away_and_later_ones_are_served_again() -> None:
    gate = threading.Event()

    async def ask() -> tuple[list[object], object]:
        model = ModelThread(3)
        tasks = [asyncio.create_task(model.run(lambda: gate.wait(20), still_there)) for _ in range(5)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True), await model.run(lambda: "served", still_there)

    given, later = asyncio.run(ask())
    assert [isinstance(one, BusyError) for one in given] == [False, False, False, True, True]
    assert later == "served"


def test_work_that_fails_leaves_the_thread_free_for_the_next() -> None:
    async def ask() -> object:
        model = ModelThread(1)
        with pytest.raises(ZeroDivisionError):
            await model.run(lambda: 1 // 0, still_there)
        return await model.run(lambda: "served", still_there)

    assert asyncio.run(ask()) == "served"
