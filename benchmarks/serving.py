"""What the server costs, beside others behind the same server in the same run, and what load and reloads do to it.

Contestants, each in a process of its own, each with the same sources where it reads any:

- infused onnx: an exported infused model (KAM, a graph and phrases), answered by onnxruntime
- infused torch: the same model as `infuser train` saves it
- plain onnx: the checkpoint without method and knowledge, exported in the same way
- plain pipeline: transformers' text-classification pipeline

They are asked in turn within each round, each round beginning with another: by one client (batches of one text) and by
several at once; medians over rounds are printed with ratios, and beside them the processor time of the server in the
round in which it was least, which other programs disturb less. Take at least five rounds: a median of two is as
wrong as the more disturbed of them.
Then 64 clients ask `infuser serve` without a pause, and knowledge is exchanged under load.

    python benchmarks/serving.py                       # about fifteen minutes
    python benchmarks/serving.py --quick --out try.json  # MiniLM alone, small numbers: does it run?
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from support.measuring import RESULTS, about, write_result

TARGETS = {"infused onnx over infused torch, one client": 1.5, "infused onnx over plain onnx, one client": 1 / 1.15}
"""Ratios of requests per second that we want to reach, for every shape and length."""
CONTESTANTS = ("infused onnx", "infused torch", "plain onnx", "plain pipeline")
SHAPES, LENGTHS = ("minilm", "bert-base"), (32, 128)
N_WORDS, ONE_IN, N_TRIPLES = 4_000, 6, 20
"""One in so many words is an entity of the graph, which has so many triples of each."""


class Texts:
    """Makes texts of exactly so many tokens, some of whose words the sources know."""

    def __init__(self, tokenizer: Any, seed: int = 0) -> None:
        self._chance, self._tokenizer = random.Random(seed), tokenizer
        whole = [word for word in tokenizer.get_vocab() if word.isalpha() and word.islower() and len(word) > 3]
        self.words = sorted(whole)[:: max(1, len(whole) // N_WORDS)][:N_WORDS]
        self.known = self.words[::ONE_IN]

    def __call__(self, n_tokens: int) -> str:
        """Return a text of so many tokens, special ones included: each word is one."""
        return " ".join(self._chance.choices(self.words, k=n_tokens - 2))

    def triples(self) -> list[str]:
        """Return triples about the words that are known."""
        chance = random.Random(1)
        return [f"{word}\tnear\t{other}" for word in self.known for other in chance.sample(self.known, N_TRIPLES)]


def make(folder: Path, shape: str) -> None:
    """Write a shape's saved infused model, its export, the plain checkpoint and its export, and two graphs."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from infuser import Kam
    from infuser.assets import fetch
    from infuser.exporting import export_parts
    from infuser.hosts.loading import load_model, longest_input
    from infuser.knowledge.builders import build_graph_from_files
    from infuser.opening import plain_collator, save_plain

    minilm = str(fetch("minilm"))
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    texts = Texts(tokenizer)
    for name, lines in (("kg", texts.triples()), ("more", [*texts.triples(), "added\tnear\tentity"])):
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        build_graph_from_files(folder / name, [folder / f"{name}.tsv"])
    torch.manual_seed(0)
    task = "sequence-classification"
    host: Any = load_model(minilm, task) if shape == "minilm" else BertForSequenceClassification(BertConfig())
    host.eval()
    save_plain(host, tokenizer, folder / "plain")
    assert longest_input(host, tokenizer) >= max(LENGTHS)
    export_parts(folder / "plain-onnx", host, plain_collator(host, tokenizer), None)
    infused = infuse_as_trained(host, Kam(), folder, tokenizer)
    infused.save(folder / "infused")
    infused.export(folder / "infused-onnx")


def infuse_as_trained(host: Any, method: Any, folder: Path, tokenizer: Any) -> Any:
    """Infuse a host with a shape's graph and phrases; as after training, no new weight is left at its start."""
    import torch

    from infuser import Graph, infuse
    from infuser.sources import Phrases

    texts = Texts(tokenizer)
    phrases = [" ".join(pair) for pair in zip(texts.known, texts.words, strict=False)]
    infused = infuse(host, method, sources=[Graph(folder / "kg"), Phrases(phrases)], tokenizer=tokenizer)
    for name, weight in infused.model.named_parameters():
        if "knowledge" in name:
            weight.data += 0.02 * torch.randn_like(weight)
    return infused


class PipelineModel:
    """A plain transformers pipeline as a served model."""

    sources, tasks = (), frozenset({"predict"})

    def __init__(self, folder: Path) -> None:
        from transformers import pipeline

        self._pipeline: Any = pipeline("text-classification", str(folder), device="cpu", top_k=None)

    def about(self) -> dict[str, Any]:
        return {"model": "pipeline", "method": None, "labels": []}

    def predict(self, questions: Sequence[Any]) -> list[dict[str, Any]]:
        answers = self._pipeline([one.text for one in questions], batch_size=len(questions))
        return [{"probabilities": {one["label"]: one["score"] for one in answer}} for answer in answers]


def serve(contestant: str, folder: Path, threads: int) -> None:
    """Serve one contestant until standard input ends."""
    if "torch" in contestant or "pipeline" in contestant:
        import torch

        torch.set_num_threads(threads)
    from infuser.serving.model import open_model, saved_sources
    from infuser.serving.server import running

    names = {"infused onnx": "infused-onnx", "infused torch": "infused", "plain onnx": "plain-onnx"}
    model: Any
    if contestant == "plain pipeline":
        model = PipelineModel(folder / "plain")
    else:
        place = str(folder / names[contestant])
        model = open_model(place, saved_sources(place), threads=threads)
    with running(model) as address:
        print(address, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def served(folder: Path, threads: int) -> Iterator[dict[str, tuple[str, psutil.Process]]]:
    """Start all contestants and yield their addresses and processes."""
    with contextlib.ExitStack() as stack:
        addresses: dict[str, tuple[str, psutil.Process]] = {}
        for name in CONTESTANTS:
            command = [sys.executable, __file__, "--serve", name, "--folder", str(folder), "--threads", str(threads)]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert process.stdin is not None and process.stdout is not None
            stack.callback(process.stdin.close)
            address = process.stdout.readline().strip()
            assert address, f"{name} did not start"
            addresses[name] = address, psutil.Process(process.pid)
        yield addresses


async def ask(client: httpx.AsyncClient, text: str, seen: list[tuple[float, int]]) -> int:
    """Ask once, and note seconds and status (0 where there was no answer); return the version of the knowledge."""
    began = time.perf_counter()
    try:
        answer = await client.post("/predict", json={"text": text})
        status, version = answer.status_code, answer.json().get("knowledge", 0)
    except httpx.TransportError:
        status, version = 0, 0
    seen.append((time.perf_counter() - began, status))
    return int(version)


async def load(address: str, texts: Sequence[str], n_clients: int) -> tuple[float, list[tuple[float, int]]]:
    """Let clients ask all texts, each asking again as soon as it has its answer; return seconds and all answers."""
    seen: list[tuple[float, int]] = []
    waiting = iter(texts)

    async def one() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=120) as client:
            for text in waiting:
                await ask(client, text, seen)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(n_clients)))
    return time.perf_counter() - began, seen


def compare(
    addresses: dict[str, tuple[str, psutil.Process]],
    texts: Texts,
    n_tokens: int,
    n_clients: int,
    n_texts: int,
    rounds: int,
) -> dict[str, Any]:
    """Return requests per second and milliseconds of each contestant; all take turns in every round."""
    rates: dict[str, list[float]] = {name: [] for name in addresses}
    taken: dict[str, list[float]] = {name: [] for name in addresses}
    worked: dict[str, list[float]] = {name: [] for name in addresses}
    for turn in range(rounds + 1):  # the first warms up
        asked = [texts(n_tokens) for _ in range(n_texts if turn else max(4, n_clients))]
        first = turn % len(addresses)
        for name, (address, server) in [*list(addresses.items())[first:], *list(addresses.items())[:first]]:
            before = sum(server.cpu_times()[:2])
            seconds, seen = asyncio.run(load(address, asked, n_clients))
            assert {status for _, status in seen} == {200}, Counter(status for _, status in seen)
            if turn:
                rates[name].append(len(seen) / seconds)
                taken[name] += [1e3 * one for one, _ in seen]
                worked[name].append(1e3 * (sum(server.cpu_times()[:2]) - before) / len(seen))
    return {
        name: {
            "requests_per_second": round(statistics.median(rates[name]), 2),
            "p50_ms": round(float(np.percentile(taken[name], 50)), 1),
            "p95_ms": round(float(np.percentile(taken[name], 95)), 1),
            "processor_ms": round(min(worked[name]), 1),  # other programs can only add to it
        }
        for name in addresses
    }


@contextlib.contextmanager
def command(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start `infuser serve` with the exported model, as people do."""
    words = [sys.executable, "-m", "infuser", "serve", str(folder / "infused-onnx"), "--port", "0"]
    with subprocess.Popen([*words, "--workers", "2"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[2]
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()


def memory_mb(server: psutil.Process) -> float:
    """Return the memory of the server and its workers; what they share counts once for each."""
    processes = [server, *server.children(recursive=True)]
    return round(sum(one.memory_info().rss for one in processes) / 1e6, 1)


def many_clients(folder: Path, texts: Texts, n_clients: int, seconds: float) -> dict[str, Any]:
    """Let clients ask without a pause, and read the server's memory while it works."""

    async def run(address: str, server: psutil.Process) -> dict[str, Any]:
        await load(address, [texts(32) for _ in range(n_clients)], n_clients)
        seen: list[tuple[float, int]] = []
        memory, until = [memory_mb(server)], time.perf_counter() + seconds

        async def one() -> None:
            async with httpx.AsyncClient(base_url=address, timeout=120) as client:
                while time.perf_counter() < until:
                    await ask(client, texts(32), seen)

        async def watch() -> None:
            while time.perf_counter() < until:
                await asyncio.sleep(0.5)
                memory.append(memory_mb(server))

        await asyncio.gather(watch(), *(one() for _ in range(n_clients)))
        statuses = Counter(status for _, status in seen)
        return {
            "clients": n_clients,
            "seconds": seconds,
            "answers": statuses[200],
            "errors": len(seen) - statuses[200],
            "p50_ms": round(1e3 * float(np.percentile([one for one, _ in seen], 50)), 1),
            "p95_ms": round(1e3 * float(np.percentile([one for one, _ in seen], 95)), 1),
            "memory_mb": {"before": memory[0], "most": max(memory), "end": memory[-1]},
        }

    with command(folder) as (address, server):
        return asyncio.run(run(address, server))


def reloads(folder: Path, texts: Texts, n_clients: int, seconds: float) -> dict[str, Any]:
    """Exchange the graph again and again while clients ask."""

    async def run(address: str) -> dict[str, Any]:
        seen: list[tuple[float, int]] = []
        taken: list[float] = []
        until = time.perf_counter() + seconds

        async def one() -> int:
            version = 0
            async with httpx.AsyncClient(base_url=address, timeout=120) as client:
                while time.perf_counter() < until:
                    now = await ask(client, texts(32), seen)
                    assert now >= version, "a connection has gone back to older knowledge"
                    version = now
            return version

        async def exchange() -> None:
            async with httpx.AsyncClient(base_url=address, timeout=120) as client:
                while not taken or time.perf_counter() < until:
                    graph = str(folder / ("more", "kg")[len(taken) % 2])
                    began = time.perf_counter()
                    answer = await client.post("/knowledge/reload", json={"graph": graph})
                    assert answer.status_code == 200, answer.text
                    taken.append(1e3 * (time.perf_counter() - began))
                    await asyncio.sleep(0.5)

        versions = await asyncio.gather(*(one() for _ in range(n_clients)), exchange())
        lost = sum(status != 200 for _, status in seen)
        known = max(version for version in versions if version is not None)
        return {
            "clients": n_clients,
            "seconds": seconds,
            "answers": len(seen) - lost,
            "lost": lost,
            "exchanges": len(taken),
            "last_version": known,
            "exchange_ms": round(statistics.median(taken), 1),
        }

    with command(folder) as (address, _):
        return asyncio.run(run(address))


def ratios(measured: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return requests per second of the infused ONNX model over those of the others; and so of processor time."""
    own = measured["infused onnx"]
    return {
        name: {
            "requests": round(own["requests_per_second"] / one["requests_per_second"], 3),
            "per processor second": round(one["processor_ms"] / own["processor_ms"], 3),
        }
        for name, one in measured.items()
        if one is not own
    }


def main() -> None:
    """Measure, print and write everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="MiniLM and 32 tokens alone, small numbers")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="threads of each model; clients need a core too")
    parser.add_argument("--folder", type=Path, help="where models are made, and found again; else a temporary folder")
    parser.add_argument("--out", type=Path, default=RESULTS / "serving.json")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.folder, given.threads)
        return
    from transformers import AutoTokenizer

    rounds, seconds = (2, 5.0) if given.quick else (given.rounds, 60.0)
    result: dict[str, Any] = about(
        "torch", "transformers", "onnxruntime", "starlette", "uvicorn", threads=given.threads
    )
    result |= {"rounds": rounds, "shapes": {}}
    with tempfile.TemporaryDirectory() as temporary:
        root = given.folder or Path(temporary)
        for shape in SHAPES[:1] if given.quick else SHAPES:
            folder = root / shape
            if not (folder / "infused-onnx").exists():
                folder.mkdir(parents=True, exist_ok=True)
                make(folder, shape)
            texts = Texts(AutoTokenizer.from_pretrained(str(folder / "plain")))
            found = result["shapes"][shape] = {}
            with served(folder, given.threads) as addresses:
                for n_tokens in LENGTHS[:1] if given.quick else LENGTHS:
                    n_texts = {"minilm": 40, "bert-base": 12}[shape] // (3 if given.quick else 1)
                    for label, n_clients in (("one client", 1), ("8 clients", 8)):
                        measured = compare(addresses, texts, n_tokens, n_clients, max(n_texts, n_clients), rounds)
                        found[f"{n_tokens} tokens, {label}"] = {**measured, "infused onnx over": ratios(measured)}
                        print(f"{shape}, {n_tokens} tokens, {label}")
                        for name, one in measured.items():
                            print(f"  {name:15}", "  ".join(f"{key} {value:8.1f}" for key, value in one.items()))
                        print("  infused onnx over", ratios(measured), flush=True)
        minilm = root / "minilm"
        texts = Texts(AutoTokenizer.from_pretrained(str(minilm / "plain")))
        result["many clients"] = many_clients(minilm, texts, 64, seconds)
        print("64 clients:", result["many clients"], flush=True)
        result["reloads"] = reloads(minilm, texts, 16, seconds / 2)
        print("reloads under load:", result["reloads"])
    single = [
        one["infused onnx over"]
        for of_shape in result["shapes"].values()
        for name, one in of_shape.items()
        if name.endswith("one client")
    ]
    least = {other: min(one[other]["requests"] for one in single) for other in ("infused torch", "plain onnx")}
    result["targets"] = {
        name: {"wanted": round(wanted, 3), "least": least[name.split(" over ")[1].partition(",")[0]]}
        for name, wanted in TARGETS.items()
    }
    print("targets:", result["targets"])
    write_result(given.out, result)


if __name__ == "__main__":
    main()
