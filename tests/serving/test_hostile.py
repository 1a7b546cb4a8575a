"""Slow, half-open and broken connections, too much at once: a sentence and a status, or an end; the server goes on."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from serving.conftest import TEXT, Gated

from infuser.serving.batching import Batcher
from infuser.serving.infused import InfusedModel
from infuser.serving.limits import ServingLimits
from infuser.serving.server import running

HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
def address(model: InfusedModel) -> Iterator[str]:
    with running(model, limits=ServingLimits(header_seconds=0.3, body_seconds=0.3, most_bytes=100_000)) as address:
        yield address
        assert httpx.post(f"{address}/predict", json={"text": TEXT}, timeout=20).status_code == 200  # it goes on


def connected(address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), timeout=10)


def read_all(connection: socket.socket) -> bytes:
    """Return all that the server says until it closes the connection."""
    said = b""
    try:
        while piece := connection.recv(65_536):
            said += piece
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: 127", HEAD])
def test_a_header_that_does_not_end_is_not_waited_for(address: str, said: bytes) -> None:
    with connected(address) as slow:
        slow.sendall(said)
        assert b"200" not in read_all(slow)


@pytest.mark.parametrize("said", [b"", b'{"text": "Be'])
def test_a_body_that_does_not_end_is_told_to_come_again(address: str, said: bytes) -> None:
    with connected(address) as slow:
        slow.sendall(HEAD + b"Content-Length: 100\r\n\r\n" + said)
        answer = read_all(slow)
    assert answer.startswith(b"HTTP/1.1 408") and b"did not arrive within 0.3 seconds" in answer


def test_a_body_that_drips_is_broken_off(address: str) -> None:
    with connected(address) as slow:
        slow.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        began = time.monotonic()
        try:
            while time.monotonic() - began < 5:
                slow.sendall(b" ")
                time.sleep(0.02)
        except OSError:
            pass
    assert time.monotonic() - began < 4


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(address: str) -> None:
    with connected(address) as large:
        large.sendall(HEAD + b"Content-Length: 10000000000\r\n\r\n")
        answer = large.recv(65_536)
        while not answer.endswith(b"}"):
            answer += large.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 413") and b"at most 100,000 bytes" in answer


def test_a_body_in_endless_pieces_is_refused(address: str) -> None:
    with connected(address) as endless:
        endless.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(50):
                endless.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
        except OSError:
            pass
        assert b"413" in endless.recv(100)


@pytest.mark.parametrize("garbage", [b"\x00\xff\r\n\r\n", b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\n\r\n"])
def test_bytes_that_are_no_request_are_refused(address: str, garbage: bytes) -> None:
    with connected(address) as broken:
        broken.sendall(garbage)
        assert broken.recv(100).startswith(b"HTTP/1.1 4")


def test_texts_with_anything_in_them_are_answered(address: str) -> None:
    texts = ["", " ", "\x00\x0b\ufffe", "a" * 20_000, "👍" * 500, "\u202e<script>alert(1)</script>", "\n\n\n"]
    answer = httpx.post(f"{address}/predict", json={"texts": texts}, timeout=20)
    assert answer.status_code == 200 and len(answer.json()["predictions"]) == len(texts)
    lone = httpx.post(
        f"{address}/annotate", content=b'{"text": "river \\ud800"}', headers={"content-type": "application/json"}
    )
    assert lone.status_code == 200


def test_a_client_that_leaves_is_not_answered_and_the_others_are(gated: Gated) -> None:
    statuses: list[int] = []

    def ask(address: str, text: str) -> None:
        statuses.append(httpx.post(f"{address}/predict", json={"text": text}, timeout=20).status_code)

    with running(gated, limits=ServingLimits(batch_size=1)) as address:
        first = threading.Thread(target=ask, args=(address, "wait"))
        first.start()
        assert gated.entered.wait(20)
        body = json.dumps({"text": "gone"}).encode()
        with connected(address) as leaving:
            leaving.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            httpx.get(f"{address}/health")
        httpx.get(f"{address}/health")  # by now the server has seen that the client left
        last = threading.Thread(target=ask, args=(address, "the last"))
        last.start()
        gated.gate.set()
        first.join(20)
        last.join(20)
    assert statuses == [200, 200] and gated.batches == [["wait"], ["the last"]]


def test_a_full_queue_says_when_to_come_again_and_a_slow_model_is_not_waited_for(gated: Gated) -> None:
    limits = ServingLimits(batch_size=1, most_waiting=3, most_texts=3, seconds=2)
    waiting: list[httpx.Response] = []
    with running(gated, limits=limits) as address, httpx.Client(base_url=address, timeout=20) as client:

        def ask(text: str) -> None:
            waiting.append(httpx.post(f"{address}/predict", json={"text": text}, timeout=20))

        threads = [threading.Thread(target=ask, args=("wait",))]
        threads[0].start()
        assert gated.entered.wait(20)
        threads += [threading.Thread(target=ask, args=(TEXT,)) for _ in range(3)]
        for thread in threads[1:]:
            thread.start()
        while "infuser_requests_under_way 5" not in client.get("/metrics").text:  # with this one
            assert not waiting
        refused = client.post("/predict", json={"text": TEXT})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1" and "Ask again in a second" in refused.json()["error"]["message"]
        assert client.get("/health").status_code == 200  # the server itself is not busy
        for thread in threads:
            thread.join(20)
        assert {answer.status_code for answer in waiting} == {504}
        assert "no answer within 2 seconds" in waiting[0].json()["error"]["message"]
        gated.gate.set()
        assert client.post("/predict", json={"text": TEXT}).status_code == 200
    assert all(batch in (["wait"], [TEXT]) for batch in gated.batches) and len(gated.batches) <= 3


def test_health_tells_that_batching_has_failed_and_requests_are_answered_again(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(batcher: Batcher) -> None:
        raise RuntimeError("a fault of the batcher")

    with running(gated) as address, httpx.Client(base_url=address, timeout=20) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Batcher, "_take", broken)
            answer = client.post("/predict", json={"text": TEXT})
        assert answer.status_code == 500 and "(RuntimeError)" in answer.json()["error"]["message"]
        assert client.post("/predict", json={"text": TEXT}).status_code == 200
        assert client.get("/health").json() == {"status": "ok", "knowledge": 1, "batching_failures": 1}
