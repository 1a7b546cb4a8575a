"""Requests become batches, and what goes wrong with one of them stays with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from infuser.errors import InputError
from infuser.serving.batching import Batcher, BusyError, GoneError, WorkError
from infuser.serving.limits import ServingLimits
from infuser.serving.model import Question


class Reader:
    """Answers each text with its length, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.threads: set[str] = set()

    def __call__(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        self.batches.append([one.text for one in questions])
        self.threads.add(threading.current_thread().name)
        if any(one.text == "bad" for one in questions):
            raise InputError("one text is bad")
        return [{"length": len(one.text)} for one in questions]


async def there() -> bool:
    return False


async def gone() -> bool:
    return True


def questions(*texts: str) -> list[Question]:
    return [Question(text) for text in texts]


def test_requests_that_come_together_are_read_together_in_one_thread() -> None:
    async def ask() -> tuple[list[Any], Reader]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_ms=50))
        asked = (batcher.ask("key", reader, questions("a" * n), there) for n in range(1, 9))
        return await asyncio.gather(*asked), reader

    answers, reader = asyncio.run(ask())
    assert answers == [[{"length": n}] for n in range(1, 9)]
    assert [len(batch) for batch in reader.batches] == [8] and len(reader.threads) == 1


def test_a_full_batch_does_not_wait_and_a_large_request_is_read_in_several() -> None:
    async def ask() -> tuple[list[Any], Reader, float]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_size=4, batch_ms=60_000))
        began = asyncio.get_running_loop().time()
        answers = await batcher.ask("key", reader, questions(*("abcdefgh"[:n] for n in range(1, 9))), there)
        return answers, reader, asyncio.get_running_loop().time() - began

    answers, reader, seconds = asyncio.run(ask())
    assert [answer["length"] for answer in answers] == list(range(1, 9))
    assert [len(batch) for batch in reader.batches] == [4, 4] and seconds < 30


def test_texts_of_a_batch_are_read_by_length_so_that_little_is_padding() -> None:
    async def ask() -> tuple[list[Any], Reader]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_ms=0))
        return await batcher.ask("key", reader, questions("b" * 3000, "a", "c" * 2900, "aa"), there), reader

    answers, reader = asyncio.run(ask())
    assert [answer["length"] for answer in answers] == [3000, 1, 2900, 2]
    assert [[len(text) for text in batch] for batch in reader.batches] == [[1, 2], [2900, 3000]]


def test_a_batch_has_at_most_so_many_characters_but_at_least_one_text() -> None:
    async def ask() -> tuple[list[Any], Reader]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_ms=0, batch_characters=100))
        asked = questions("a" * 60, "b" * 40, "c" * 300, "d" * 30, "e" * 70, "f")
        return await batcher.ask("key", reader, asked, there), reader

    answers, reader = asyncio.run(ask())
    assert [answer["length"] for answer in answers] == [60, 40, 300, 30, 70, 1]
    sizes = [sum(map(len, batch)) for batch in reader.batches]
    assert 300 in sizes and all(size <= 100 for size in sizes if size != 300)
    assert sum(len(batch) for batch in reader.batches) == 6


def test_a_loop_that_ends_fails_those_who_wait_and_is_started_again() -> None:
    async def broken() -> bool:
        raise RuntimeError("a client that nobody expected")

    async def ask() -> tuple[list[Any], Any, int]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_ms=20, seconds=20))
        asked = [
            batcher.ask("key", reader, questions(text), is_gone) for text, is_gone in (("a", there), ("b", broken))
        ]
        failed = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 5)
        return (
            failed,
            await asyncio.wait_for(batcher.ask("key", reader, questions("abc"), there), 5),
            batcher.n_failures,
        )

    failed, answer, n_failures = asyncio.run(ask())
    assert [type(error) for error in failed] == [WorkError, WorkError] and answer == [{"length": 3}]
    assert str(failed[0].args[0]) == "a client that nobody expected" and n_failures == 1


def test_what_is_asked_of_different_knowledge_is_never_read_together() -> None:
    async def ask() -> tuple[Reader, Reader]:
        old, new, batcher = Reader(), Reader(), Batcher(ServingLimits(batch_ms=20))
        await asyncio.gather(
            *(batcher.ask(*side, questions(text), there) for text in "abcd" for side in (("old", old), ("new", new)))
        )
        return old, new

    old, new = asyncio.run(ask())
    assert old.batches == [["a", "b", "c", "d"]] == new.batches


def test_a_text_that_cannot_be_read_fails_alone() -> None:
    async def ask() -> list[Any]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_ms=20))
        asked = (batcher.ask("key", reader, questions(text), there) for text in ("good", "bad", "fine"))
        return await asyncio.gather(*asked, return_exceptions=True)

    good, bad, fine = asyncio.run(ask())
    assert (good, fine) == ([{"length": 4}], [{"length": 4}])
    assert isinstance(bad, WorkError) and str(bad.args[0]) == "one text is bad"


def test_what_nobody_waits_for_is_not_read() -> None:
    async def ask() -> tuple[list[Any], Reader]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_ms=20))
        asked = [
            batcher.ask("key", reader, questions("left"), gone),
            batcher.ask("key", reader, questions("stays"), there),
        ]
        return await asyncio.gather(*asked, return_exceptions=True), reader

    (left, stays), reader = asyncio.run(ask())
    assert isinstance(left, GoneError) and stays == [{"length": 5}] and reader.batches == [["stays"]]


def test_more_texts_than_may_wait_are_refused_but_for_urgent_ones() -> None:
    async def ask() -> list[Any]:
        reader, batcher = Reader(), Batcher(ServingLimits(batch_ms=50, most_waiting=3, most_texts=3))
        waiting = [asyncio.create_task(batcher.ask("key", reader, questions("a"), there)) for _ in range(3)]
        await asyncio.sleep(0)
        assert batcher.n_waiting == 3
        with pytest.raises(BusyError):
            await batcher.ask("key", reader, questions("b"), there)
        urgent = await batcher.ask("other", reader, questions("first"), there, urgent=True)
        assert reader.batches[0] == ["first"]
        return [urgent, *await asyncio.gather(*waiting)]

    assert asyncio.run(ask()) == [[{"length": 5}], *[[{"length": 1}]] * 3]


def test_a_request_that_takes_too_long_ends_and_its_other_texts_are_not_read() -> None:
    gate, seen = threading.Event(), list[str]()

    def slow(asked: Sequence[Question]) -> list[dict[str, Any]]:
        seen.extend(one.text for one in asked)
        assert gate.wait(20)
        return [{} for _ in asked]

    async def ask() -> list[dict[str, Any]]:
        batcher = Batcher(ServingLimits(batch_size=1, batch_ms=0, seconds=0.2))
        with pytest.raises(TimeoutError):
            await batcher.ask("key", slow, questions("first", "second"), there)
        assert batcher.seconds_at_work > 0.1
        gate.set()
        return await batcher.ask("key", slow, questions("third"), there)

    assert asyncio.run(ask()) == [{}] and seen == ["first", "third"]
