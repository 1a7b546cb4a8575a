"""Every address, through a real socket: what it answers, and how it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving.conftest import OF_NEW, PAIR, TEXT, Gated

import infuser.runtime
from infuser.analysis.explain import explain
from infuser.analysis.predict import predict
from infuser.errors import InputError
from infuser.linking.inference import find_mentions
from infuser.serving.exported import ServedExport
from infuser.serving.infused import InfusedModel
from infuser.serving.limits import ServingLimits
from infuser.serving.server import check_access, running

TOKEN = "a-token-of-this-test"


def test_predictions_are_those_of_the_library(client: httpx.Client, model: InfusedModel) -> None:
    one = client.post("/predict", json={"text": TEXT, "pair": PAIR}).json()
    several = client.post("/predict", json={"texts": [TEXT, OF_NEW], "pairs": [PAIR, None]}).json()
    examples = [{"text": TEXT, "pair": PAIR}, {"text": OF_NEW, "pair": None}]
    expected = list(predict(model.infused.model, model.infused.collator(), examples))  # type: ignore[attr-defined]
    assert one["knowledge"] == 1 and len(one["predictions"]) == 1
    for answer, known in zip([*several["predictions"], *one["predictions"]], [*expected, expected[0]], strict=True):
        assert answer["label"] == known["label"]
        assert answer["probabilities"] == pytest.approx(known["probabilities"], abs=1e-6)


@pytest.mark.slow
def test_an_exported_model_answers_as_the_saved_one_does(exported: Path, client: httpx.Client) -> None:
    model = ServedExport(infuser.runtime.load(exported, threads=1))
    asked = {"texts": [TEXT, OF_NEW, "the old town"], "pairs": [PAIR, None, "the river"]}
    with running(model) as address, httpx.Client(base_url=address, timeout=20) as other:
        for task, key in (("predict", "predictions"), ("annotate", "annotations")):
            one, two = (side.post(f"/{task}", json=asked).json()[key] for side in (client, other))
            assert flat(one) == pytest.approx(flat(two), abs=1e-5)
        [saved], [told] = (
            side.post("/explain", json={"text": TEXT}).json()["explanations"] for side in (client, other)
        )
        assert told["with_knowledge"] == pytest.approx(saved["with_knowledge"], abs=1e-5)
        for name, answer in saved["without_source"].items():
            assert told["without_source"][name] == pytest.approx(answer, abs=1e-5)
        off = other.post("/explain", json={"text": TEXT, "off": ["graph"]}).json()["explanations"][0]
        assert off["with_knowledge"] == pytest.approx(told["without_source"]["graph"]) and off["off"] == ["graph"]
        assert "'grahp'" in other.post("/explain", json={"text": TEXT, "off": ["grahp"]}).json()["error"]["message"]
        refused = other.post("/link", json={"text": TEXT})
        assert refused.status_code == 404 and "and not its export" in refused.json()["error"]["message"]
        assert other.get("/model").json()["labels"] == ["no", "perhaps", "yes"]


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return the leaves of JSON values by their places."""
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: leaf for at, one in inside for key, leaf in flat(one, f"{name}/{at}").items()}
    return {name: value}


def test_annotations_name_words_entities_and_ties_by_source(client: httpx.Client) -> None:
    [found] = client.post("/annotate", json={"text": TEXT, "pair": PAIR}).json()["annotations"]
    graph, phrases = found["found"]["graph"], found["found"]["phrases"]
    assert [(span["text"], span["id"]) for span in graph["spans"]] == [("tablets", "tablets"), ("pharmacy", "pharmacy")]
    assert [(link["source"], link["target"], link["relation"]) for link in graph["links"]] == [(0, 1, "sells")]
    assert [span["text"] for span in phrases["spans"]] == ["near me"]


def test_an_explanation_has_the_answer_with_without_and_without_each_source(
    client: httpx.Client, model: InfusedModel
) -> None:
    [told] = client.post("/explain", json={"text": TEXT, "pair": PAIR}).json()["explanations"]
    expected = explain(model.infused, TEXT, PAIR).to_dict()
    assert told["with_knowledge"] == pytest.approx(expected["answer_infused"], abs=2e-6)
    assert told["without_knowledge"] == pytest.approx(expected["answer_plain"], abs=2e-6)
    assert list(told["without_source"]) == ["graph", "phrases"]
    assert told["with_knowledge"] != told["without_source"]["graph"] != told["without_source"]["phrases"]
    [off] = client.post("/explain", json={"text": TEXT, "pair": PAIR, "off": ["graph"]}).json()["explanations"]
    assert off["with_knowledge"] == pytest.approx(told["without_source"]["graph"], abs=2e-6) and off["off"] == ["graph"]


def test_a_linker_links_and_predicts_no_labels(linker: InfusedModel) -> None:
    with running(linker) as address, httpx.Client(base_url=address, timeout=20) as client:
        answer = client.post("/link", json={"texts": ["the old bank near the lake", "nothing"]}).json()
        refused = client.post("/predict", json={"text": "the old bank"})
        reloaded = client.post("/knowledge/reload", json={}).json()
    assert linker.infused.sources
    expected = find_mentions(linker.infused, ["the old bank near the lake", "nothing"])  # type: ignore[arg-type]
    assert [[one["id"] for one in found["mentions"]] for found in answer["links"]] == [
        [mention.id for mention in of_text] for of_text in expected
    ]
    assert answer["links"][0]["mentions"] and not answer["links"][1]["mentions"]
    assert refused.status_code == 404 and "no head for labels" in refused.json()["error"]["message"]
    assert reloaded["knowledge"]["version"] == 2 and len(reloaded["knowledge"]["sources"][0]["folders"]) == 2


def test_health_model_and_metrics_say_how_it_goes(client: httpx.Client) -> None:
    client.post("/predict", json={"texts": [TEXT] * 3})
    client.post("/predict", json={"text": 5})
    client.get("/nowhere")
    assert client.get("/health").json() == {"status": "ok", "knowledge": 1}
    about = client.get("/model").json()
    assert about["labels"] == ["no", "perhaps", "yes"] and about["method"] == "kam"
    assert [source["name"] for source in about["knowledge"]["sources"]] == ["graph", "phrases"]
    metrics = client.get("/metrics").text
    for line in (
        'infuser_requests_total{path="/predict",status="200"} 1',
        'infuser_requests_total{path="/predict",status="400"} 1',
        'infuser_requests_total{path="other",status="404"} 1',
        'infuser_request_seconds_count{path="/predict"} 2',
        'infuser_request_seconds_bucket{path="/predict",le="+Inf"} 2',
        "infuser_batch_size_sum 3",
        "infuser_queue_length 0",
        "infuser_knowledge_version 1",
    ):
        assert f"\n{line}\n" in metrics
    for line in metrics.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [-+.\de]+', line), line


def test_the_document_lists_all_addresses_and_its_examples_are_answered(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    tasks = {"/predict", "/annotate", "/explain"}
    assert set(document["paths"]) == tasks | {"/knowledge/reload", "/health", "/model", "/metrics", "/openapi.json"}
    for path, verbs in document["paths"].items():
        for verb, about in verbs.items():
            body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            answer = client.request(verb, path, **({} if body is None else {"json": body}))
            assert answer.status_code == 200, (path, answer.text)
            assert answer.headers["content-type"].partition(";")[0] in about["responses"]["200"]["content"]


def test_the_page_shows_the_document_and_fetches_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
    for path in ("/predict", "/annotate", "/explain", "/knowledge/reload", "/health"):
        assert f'data-path="{path}"' in page.text
    assert "{{" not in page.text and "hidden><label>Token" in page.text
    for name in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert name.startswith("data:") or client.get(f"/{name}").status_code == 200, name


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/predict", b"", 400, "not JSON"),
        ("/predict", b'{"text": "a"', 400, "not JSON"),
        ("/predict", b"[" * 100_000, 400, "not JSON"),
        ("/predict", b'{"text": ' * 50_000, 400, "not JSON"),
        ("/predict", b'{"text": "' + b"\xff" + b'"}', 400, "not JSON"),
        ("/predict", b'"Bern"', 400, "The request is 'Bern'"),
        ("/predict", b"{}", 400, "either a 'text' or a list of 'texts'"),
        ("/predict", b'{"text": "a", "texts": ["b"]}', 400, "either a 'text' or a list of 'texts'"),
        ("/predict", b'{"text": 5}', 400, "'text' is 5; it must be a text"),
        ("/predict", b'{"text": "a", "pairs": ["b"]}', 400, "'pairs' go with 'texts'"),
        ("/predict", b'{"texts": ["a"], "pair": "b"}', 400, "'pairs', a list as long"),
        ("/predict", b'{"texts": []}', 400, "at least one text"),
        ("/predict", b'{"texts": "Bern"}', 400, "at least one text"),
        ("/predict", b'{"texts": ["a", null]}', 400, "'texts[1]' is None"),
        ("/predict", b'{"texts": ["a", "b"], "pairs": ["c"]}', 400, "2 texts and 1 pairs"),
        ("/predict", b'{"texts": ["a"], "pairs": {"0": "c"}}', 400, "'pairs' is {'0': 'c'}"),
        ("/predict", b'{"text": "a", "txet": "b"}', 400, "'txet', which has no meaning"),
        ("/predict", b'{"text": "a", "off": []}', 400, "'off', which has no meaning"),
        (
            "/predict",
            b'{"text": "' + b"a" * 301 + b'"}',
            413,
            "'text' has 301 characters, which is too long: at most 300",
        ),
        ("/predict", b'{"texts": ["a"], "pairs": ["' + b"a" * 301 + b'"]}', 413, "'pairs[0]' has 301 characters"),
        ("/predict", b'{"texts": [' + b'"a",' * 8 + b'"a"]}', 413, "9 texts are too many: at most 8"),
        ("/predict", b" " * 20_001, 413, "too large: at most 20,000 bytes"),
        ("/explain", b'{"text": "a", "off": "graph"}', 400, "'off' is 'graph'; it must be a list"),
        ("/explain", b'{"text": "a", "off": ["grahp"]}', 422, "no source 'grahp'"),
        ("/knowledge/reload", b'["kg"]', 400, "an object such as"),
        ("/knowledge/reload", b'{"graph": 5}', 400, "'graph' is 5"),
        ("/knowledge/reload", b'{"graph": {"x": "\\u0000"}}', 400, "'graph.x'"),
    ],
)
def test_a_request_that_cannot_be_answered_is_told_why(
    narrow: httpx.Client, path: str, body: bytes, status: int, said: str
) -> None:
    answer = narrow.post(path, content=body, headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (status, status) and said in error["message"]
    assert narrow.post("/predict", json={"text": TEXT}).status_code == 200


@pytest.fixture(scope="module")
def narrow(narrow_model: InfusedModel) -> Any:
    limits = ServingLimits(most_characters=300, most_texts=8, most_bytes=20_000)
    limits_of_deep = ServingLimits(most_characters=300, most_texts=8, most_bytes=500_000)
    with running(narrow_model, limits=limits) as address, running(narrow_model, limits=limits_of_deep) as deep:

        class Client(httpx.Client):
            """Sends deep bodies to the server that takes large ones."""

            def post(self, url: Any, **options: Any) -> httpx.Response:  # type: ignore[override]
                is_deep = len(options.get("content", b"")) > 50_000
                return super().post((deep if is_deep else address) + str(url), **options)

        with Client(timeout=20) as client:
            yield client


@pytest.fixture(scope="module")
def narrow_model(model_without_graph: Any) -> InfusedModel:
    return InfusedModel(infuser.load(model_without_graph[0]))


def test_other_methods_addresses_types_and_names_are_refused_with_a_sentence(client: httpx.Client) -> None:
    for answer, status, said in (
        (client.get("/predict"), 405, "GET has no meaning at /predict. Allowed: POST"),
        (client.get("/nowhere"), 404, "There is nothing at /nowhere"),
        (client.post("/predict", content=b"text=Bern"), 415, "Send content-type application/json"),
        (client.get("/health", headers={"host": "evil.example"}), 421, "not called 'evil.example'"),
        (client.get("/health", headers={"origin": "http://evil.example"}), 403, "'http://evil.example'"),
    ):
        assert answer.status_code == status and said in answer.json()["error"]["message"]


def test_an_error_in_the_model_gives_nothing_away_and_hurts_nobody_else(gated: Gated) -> None:
    with running(gated) as address, httpx.Client(base_url=address, timeout=20) as client:
        answer = client.post("/predict", json={"text": "die"})
        assert answer.status_code == 500 and "(RuntimeError)" in answer.json()["error"]["message"]
        assert "secret" not in answer.text and "Traceback" not in answer.text
        assert client.post("/predict", json={"text": TEXT}).status_code == 200


def test_a_token_is_wanted_for_all_but_pages_and_health(model: InfusedModel) -> None:
    with running(model, token=TOKEN) as address, httpx.Client(base_url=address, timeout=20) as client:
        for path in ("/", "/page.js", "/openapi.json", "/health"):
            assert client.get(path).status_code == 200
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": "Bearer"}):
            for path in ("/metrics", "/model"):
                assert client.get(path, headers=headers).status_code == 401
            refused = client.post("/predict", json={"text": TEXT}, headers=headers)
            assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
            assert client.post("/knowledge/reload", json={}, headers=headers).status_code == 401
        right = {"authorization": f"Bearer {TOKEN}"}
        assert client.post("/predict", json={"text": TEXT}, headers=right).status_code == 200
        assert client.get("/openapi.json").json()["security"] == [{"token": []}]
        assert "hidden><label>Token" not in client.get("/").text


def test_others_are_served_with_a_token_and_a_name_only() -> None:
    with pytest.raises(InputError, match=r"Others can reach a server at box\.lan, too\. Give a token"):
        check_access("box.lan")
    for name in ("*", "box.lan"):  # any web page through a name of its own, or a proxy on this machine
        with pytest.raises(InputError, match="Give a token"):
            check_access("127.0.0.1", ("localhost", name))
        assert check_access("127.0.0.1", (name,), TOKEN)[-1] == name
    assert check_access("127.0.0.1", ("localhost", "::1")) == ("127.0.0.1", "localhost", "[::1]")
    with pytest.raises(InputError, match="--allow-host"):
        check_access("0.0.0.0", (), TOKEN)
    with pytest.raises(InputError, match="A token of 5 characters can be guessed"):
        check_access("127.0.0.1", (), "short")
    assert check_access("127.0.0.1") == ("127.0.0.1", "localhost", "[::1]")
    assert check_access("0.0.0.0", ["box.lan"], TOKEN)[-1] == "box.lan"


@pytest.mark.parametrize(("name", "value"), [("batch_size", 0), ("seconds", float("nan")), ("most_texts", -1)])
def test_a_limit_that_lets_nothing_through_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name}={value} must be above 0"):
        ServingLimits(**{name: value})  # type: ignore[arg-type]


def test_a_request_that_could_never_wait_is_not_allowed_for() -> None:
    with pytest.raises(InputError, match="most_texts=20 is more than may wait, most_waiting=10"):
        ServingLimits(most_texts=20, most_waiting=10)
