from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest
from tiny_infusions import KNOWN_TEXT

from infuser.analysis.explain import explain
from infuser.errors import SourceError
from infuser.reports.explanation_page import explanation_parts
from infuser.viewer.limits import Limits
from infuser.viewer.request import ViewRequest
from infuser.viewer.views import InfusedView, View
from infuser.web.guard import POLICY

JSON = {"content-type": "application/json"}
ASKED = {"text": KNOWN_TEXT, "pair": "the old city", "off": [], "layer": 1, "head": 0}
PARTS = [
    "warning",
    "answer",
    "entities",
    "found",
    "triples",
    "mentions",
    "gates",
    "maps",
    "heads",
    "attention",
    "changes",
]


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("/", "text/html"),
        ("/viewer.js", "text/javascript"),
        ("/viewer.css", "text/css"),
        ("/look.js", "text/javascript"),
        ("/look.css", "text/css"),
    ],
)
def test_the_page_and_its_files_are_served_as_what_they_are(client: Any, address: str, kind: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200 and answer.headers["content-type"] == f"{kind}; charset=utf-8"
    assert len(answer.text) > 200


def test_every_file_the_page_names_is_served(client: Any) -> None:
    page = client.get("/").text
    named = [name for name in re.findall(r'(?:href|src)="([^"]+)"', page) if not name.startswith(("data:", "#"))]
    assert len(named) >= 4
    assert [name for name in named if client.get(f"/{name}").status_code != 200] == []


def test_the_model_tells_about_itself_and_about_the_limit(client: Any, view: InfusedView) -> None:
    assert client.get("/api/model").json() == {**view.about(), "most_characters": 2_000}


def test_seeing_gives_the_parts_that_reports_draw(client: Any, view: InfusedView) -> None:
    answer = client.post("/api/see", json=ASKED)
    told = answer.json()
    assert answer.status_code == 200 and list(told) == ["layer", "head", "place", "parts", "seconds"]
    assert list(told["parts"]) == PARTS
    explained = view.see(ViewRequest(ASKED["text"], ASKED["pair"], layer=1, head=0))  # type: ignore[arg-type]
    assert told["parts"] == explanation_parts(explained)
    assert (told["layer"], told["head"], told["place"]) == (1, 0, explained.place)
    assert 0 < told["seconds"] < 20


def test_explaining_gives_what_explain_gives(client: Any, view: InfusedView) -> None:
    (name, *_) = (source["name"] for source in view.about()["sources"])
    told = client.post("/api/explain", json={**ASKED, "off": [name]}).json()
    expected = explain(view.infused, KNOWN_TEXT, "the old city", layer=1, head=0, off=[name])
    assert told == json.loads(json.dumps(expected.to_dict()))
    assert told["off"] == [name] and name not in told["maps"]


def test_a_source_that_is_switched_off_changes_answer_and_attention(client: Any, view: InfusedView) -> None:
    names = [source["name"] for source in view.about()["sources"]]
    both, one, none = (client.post("/api/explain", json={**ASKED, "off": names[:n]}).json() for n in range(3))
    assert both["answer_infused"] != one["answer_infused"] != none["answer_infused"]
    assert both["answer_plain"] == one["answer_plain"] == none["answer_plain"]
    assert np.abs(np.array(both["infused"]) - one["infused"]).max() > 1e-3


def test_a_text_with_script_in_it_comes_back_as_text(client: Any) -> None:
    evil = "<script>alert(1)</script> the river & the \"river\" <img src=x onerror='alert(2)'> \x00\x0b\ufffe"
    parts = client.post("/api/see", json={"text": evil, "pair": evil}).json()["parts"]
    for part in parts.values():
        page = ElementTree.fromstring(f'<div xmlns="http://www.w3.org/1999/xhtml">{part}</div>')
        tags = {element.tag.rpartition("}")[2] for element in page.iter()}
        assert not tags & {"script", "img"}
        assert not [name for element in page.iter() for name in element.attrib if name.startswith("on")]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "not JSON"),
        (b'{"text": "a"', 400, "not JSON"),
        (b"[" * 20_000, 400, "not JSON"),
        (b'"Bern"', 400, "The request is 'Bern'"),
        (b'{"text": 5}', 400, "'text' is 5"),
        (b'{"text": "a", "layer": true}', 400, "'layer' is True"),
        (b'{"text": "a", "layer": 99}', 422, "no layer 99"),
        (b'{"text": "a", "layer": -3}', 422, "no layer -3"),
        (b'{"text": "a", "head": 7}', 422, "no head 7"),
        (b'{"text": "a", "off": ["grahp"]}', 422, "'grahp'"),
        (b'{"text": "' + b"a" * 2_001 + b'"}', 413, "2,001 characters is too long: at most 2,000"),
        (b'{"text": "a", "pair": "' + b"a" * 2_001 + b'"}', 413, "2,001 characters"),
        (b'{"text": "' + b"a" * 70_000 + b'"}', 413, "at most 64,384 bytes"),
    ],
)
def test_a_question_that_cannot_be_answered_is_told_why(client: Any, body: bytes, status: int, said: str) -> None:
    for address in ("/api/see", "/api/explain"):
        answer = client.post(address, content=body, headers=JSON)
        assert answer.status_code == status and said in answer.json()["error"]
    assert client.post("/api/see", json=ASKED).status_code == 200


def test_the_longest_text_is_answered(client: Any) -> None:
    text = "😀 " * 1_000
    answer = client.post("/api/see", json={"text": text, "pair": text})
    assert answer.status_code == 200


def test_half_a_sign_in_a_text_is_read_as_an_unreadable_sign(client: Any) -> None:
    answer = client.post("/api/explain", content=b'{"text": "the \\ud800 river"}', headers=JSON)
    assert answer.json()["text"] == "the \ufffd river"


@pytest.mark.parametrize(
    ("method", "address", "status", "said"),
    [
        ("GET", "/nothing", 404, "nothing at /nothing"),
        ("GET", "/looking.py", 404, "nothing at /looking.py"),
        ("GET", "/../app.py", 404, "nothing at"),
        ("GET", "/%2e%2e/app.py", 404, "nothing at"),
        ("GET", "/static/viewer.js", 404, "nothing at"),
        ("GET", "/api/model/", 404, "nothing at /api/model/"),
        ("GET", "/api/see", 405, "GET has no meaning at /api/see. Allowed: POST"),
        ("DELETE", "/api/model", 405, "DELETE has no meaning"),
        ("PUT", "/", 405, "PUT has no meaning at /"),
    ],
)
def test_an_address_or_method_that_has_no_meaning_is_told_so(
    client: Any, method: str, address: str, status: int, said: str
) -> None:
    answer = client.request(method, address)
    assert answer.status_code == status and said in answer.json()["error"]


def test_every_answer_carries_the_headers_that_keep_a_browser_safe(
    make_client: Callable[..., Any], fragile: Callable[..., View]
) -> None:
    client = make_client(fragile(raising(ValueError("a secret"))))
    answers = [
        client.get("/"),
        client.get("/look.js"),
        client.get("/api/model"),
        client.post("/api/see", json=ASKED),
        client.post("/api/see", json={"text": "die"}),
        client.post("/api/see", content=b"{"),
        client.get("/nothing"),
        client.request("DELETE", "/"),
        client.get("/", headers={"host": "evil.example"}),
        client.get("/", headers={"origin": "http://evil.example"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 500, 415, 404, 405, 421, 403]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == ("no-store" if "/api/" in str(answer.url) else "no-cache")
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "unsafe" not in POLICY and "default-src 'none'" in POLICY


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9", 200),
        ("LocalHost:8000", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example:8000", 421),
        ("evil@127.0.0.1", 421),
        ("127.0.0.1:8000:8000", 421),
        ("", 421),
    ],
)
def test_only_a_request_to_a_name_of_this_machine_is_answered(client: Any, host: str, status: int) -> None:
    answer = client.get("/api/model", headers={"host": host})
    assert answer.status_code == status
    assert status == 200 or f"not called {host!r}" in answer.json()["error"]


def test_other_names_are_answered_when_they_are_given(view: InfusedView, make_client: Callable[..., Any]) -> None:
    named, any_name = make_client(view, hosts=["box.lan"]), make_client(view, hosts=["*"])
    assert named.get("/", headers={"host": "box.lan:80"}).status_code == 200
    assert named.get("/", headers={"host": "127.0.0.1"}).status_code == 421
    assert any_name.get("/", headers={"host": "whatever"}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        ("http://127.0.0.1:8001", 403),
        ("http://evil.example", 403),
        ("http://127.0.0.1:8000.evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_only_our_own_page_may_ask(client: Any, origin: str, status: int) -> None:
    answer = client.post("/api/see", json=ASKED, headers={"origin": origin})
    assert answer.status_code == status
    assert client.get("/api/model", headers={"origin": origin}).status_code == status


def test_another_page_may_link_to_ours_but_not_use_up_what_we_answer(client: Any) -> None:
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    refused = client.get("/api/model", headers=foreign)
    assert refused.status_code == 403 and "Another page may not ask" in refused.json()["error"]
    assert client.get("/", headers=foreign | {"sec-fetch-mode": "navigate"}).status_code == 200
    assert client.get("/api/model", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_foreign_page_gets_no_leave_to_ask(client: Any) -> None:
    headers = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    assert client.request("OPTIONS", "/api/see", headers=headers).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_foreign_form_could_send_is_not_read(client: Any, kind: str) -> None:
    answer = client.post("/api/see", content=json.dumps(ASKED), headers={"content-type": kind})
    assert answer.status_code == 415 and "application/json" in answer.json()["error"]
    good = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/api/see", content=json.dumps(ASKED), headers=good).status_code == 200


def recurse() -> Any:
    return recurse()


def raising(error: BaseException) -> Callable[..., Any]:
    def die(*given: Any) -> Any:
        raise error

    return die


class Panic(BaseException):
    """What a tokenizer written in Rust raises is no Exception either."""


@pytest.mark.parametrize(
    ("die", "status", "said"),
    [
        (raising(SourceError("The graph 'roads' is empty. Give another.")), 422, "The graph 'roads' is empty"),
        (raising(ValueError("/home/secret")), 500, "while reading this text (ValueError); the server goes on"),
        (raising(MemoryError()), 500, "(MemoryError)"),
        (recurse, 500, "(RecursionError)"),
        (raising(StopIteration()), 500, "(StopIteration)"),
        (lambda: sys.exit(1), 500, "(SystemExit)"),
        (raising(KeyboardInterrupt()), 500, "(KeyboardInterrupt)"),
        (raising(asyncio.CancelledError()), 500, "(CancelledError)"),
        (raising(Panic("thread panicked")), 500, "(Panic)"),
    ],
)
def test_a_request_that_dies_is_told_in_a_sentence_and_the_next_one_is_answered(
    make_client: Callable[..., Any],
    fragile: Callable[..., View],
    caplog: pytest.LogCaptureFixture,
    die: Callable[[], Any],
    status: int,
    said: str,
) -> None:
    client = make_client(fragile(die))
    with caplog.at_level(logging.ERROR, "infuser"):
        answer = client.post("/api/see", json={"text": "die"})
    assert answer.status_code == status and said in answer.json()["error"]
    assert "secret" not in answer.text and "Traceback" not in answer.text
    assert [record.exc_info is not None for record in caplog.records] == [True] * (status == 500)
    assert client.post("/api/see", json=ASKED).status_code == 200


def test_an_error_outside_the_model_is_a_sentence_too(
    view: InfusedView, make_client: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client(view)
    monkeypatch.setattr("infuser.viewer.app.read_body", raising(OSError("the disk is full")))
    answer = client.post("/api/see", json=ASKED)
    assert answer.status_code == 500 and "(OSError); the server goes on" in answer.json()["error"]
    assert answer.headers["content-security-policy"] == POLICY
    monkeypatch.undo()
    assert client.post("/api/see", json=ASKED).status_code == 200


def test_a_client_that_asks_too_fast_is_asked_to_wait(view: InfusedView, make_client: Callable[..., Any]) -> None:
    client = make_client(view, limits=Limits(burst=3, requests_per_second=0.25))
    answers = [client.get("/api/model") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].headers["retry-after"] == "4" and "Ask again in 4 seconds" in answers[-1].json()["error"]
    assert client.post("/api/see", json=ASKED).status_code == 429
    assert client.get("/").status_code == 200  # the page itself is not counted


def test_more_questions_than_may_wait_are_told_to_come_back(gated: Any, talk: Callable[..., Any]) -> None:
    async def ask(client: httpx.AsyncClient) -> tuple[list[httpx.Response], list[httpx.Response]]:
        tasks = [asyncio.create_task(client.post("/api/see", json={"text": "wait"})) for _ in range(6)]
        while sum(task.done() for task in tasks) < 3:
            await asyncio.sleep(0.001)
        early = [task.result() for task in tasks if task.done()]
        gated.gate.set()
        return early, [answer for answer in await asyncio.gather(*tasks) if answer not in early]

    refused, served = talk(gated, ask, limits=Limits(most_waiting=3))
    assert [answer.status_code for answer in refused] == [503] * 3
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert "Too many questions wait" in refused[0].json()["error"]
    assert [answer.status_code for answer in served] == [200] * 3
    assert len(gated.asked) == 3 and len(gated.threads) == 1


def test_the_page_is_served_while_the_model_works(gated: Any, talk: Callable[..., Any]) -> None:
    async def ask(client: httpx.AsyncClient) -> tuple[int, bool, int]:
        task = asyncio.create_task(client.post("/api/see", json={"text": "wait"}))
        while not gated.entered.is_set():
            await asyncio.sleep(0.001)
        page = await client.get("/")
        before = task.done()
        gated.gate.set()
        return page.status_code, before, (await task).status_code

    assert talk(gated, ask) == (200, False, 200)


def test_a_question_that_never_ends_is_broken_off(view: InfusedView, talk: Callable[..., Any]) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b'{"text": "Be'
        await asyncio.sleep(60)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 10_000

    async def ask(client: httpx.AsyncClient) -> list[httpx.Response]:
        bodies = (slow(), endless())
        answers = [await client.post("/api/see", content=body, headers=JSON) for body in bodies]
        return [*answers, await client.post("/api/see", json=ASKED)]

    late, large, good = talk(view, ask, limits=Limits(body_seconds=0.05))
    assert late.status_code == 408 and "within 0.05 seconds" in late.json()["error"]
    assert late.headers["connection"] == "close"  # what still comes must not hold the connection
    assert large.status_code == 413 and good.status_code == 200


def test_a_question_that_says_it_is_large_is_not_even_read(view: InfusedView, talk: Callable[..., Any]) -> None:
    pulled = []

    async def body() -> AsyncIterator[bytes]:
        pulled.append(1)
        yield b"{}"

    async def ask(client: httpx.AsyncClient) -> httpx.Response:
        headers: Mapping[str, str] = {**JSON, "content-length": str(10**12)}
        return await client.post("/api/see", content=body(), headers=headers)

    assert talk(view, ask).status_code == 413 and not pulled
