"""How fast the viewer answers, beside the bare model in the same run, and what fifty readers at once do to it.

The embedded default of `infuser view` (MiniLM, KAM, three sources) is asked through a real socket:

- a new pair of 128 tokens, another head of it, a source switched off and on again, in turn with the bare model's two
  passes over the same pair, without knowledge and with it;
- the same for shorter and longer pairs, and where the time goes;
- the first picture in a browser, from the moment a fresh server is up (needs Playwright and Chromium);
- many clients at once, each with texts and switches of its own, each asking again as soon as it has its answer; the
  server is a process of its own, whose memory is read while it works.

    python benchmarks/viewer.py                              # about three minutes
    python benchmarks/viewer.py --seconds 5 --out try.json   # a quick try
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import torch
from support.measuring import about, rounds_of, write_result
from transformers.utils import logging

from infuser.reports.explanation_page import explanation_parts
from infuser.viewer.default import open_default
from infuser.viewer.request import ViewRequest
from infuser.viewer.server import running
from infuser.viewer.views import InfusedView

RESULT = Path(__file__).parent / "results" / "viewer.json"
LENGTHS = (16, 32, 64, 128, 256)
TARGET_LENGTH, TARGET_MS, TARGET_PICTURE_S = 128, 300, 1.0
CHROMIUM = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")


def pair_of(view: InfusedView, n_tokens: int, seed: int = 0) -> tuple[str, str]:
    """Return a pair of exactly so many tokens, special ones included, made of the queries and ads the model knows."""
    chance, tokenizer = random.Random(seed), view.infused.tokenizer
    wanted = n_tokens - tokenizer.num_special_tokens_to_add(pair=True)
    sides = []
    for texts, n in (([one.text for one in view.examples], wanted // 2), ([], wanted - wanted // 2)):
        words = " ".join(chance.choices(texts or [one.pair or "" for one in view.examples], k=n)).split()
        lengths = [len(tokenizer.tokenize(word)) for word in words]
        n_words = sum(total <= n for total in itertools.accumulate(lengths))
        sides.append(" ".join([*words[:n_words], *["the"] * (n - sum(lengths[:n_words]))]))
    assert len(tokenizer(*sides)["input_ids"]) == n_tokens, sides
    return sides[0], sides[1]


def switches(view: InfusedView) -> Iterator[list[str]]:
    """Yield, without end, which sources are off: every choice in turn."""
    names = [source["name"] for source in view.about()["sources"]]
    choices = [list(off) for n in range(len(names) + 1) for off in itertools.combinations(names, n)]
    return itertools.cycle(choices)


def in_turn(tasks: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Return median and 95th percentile of the milliseconds of each task; all take turns, the first round warms up."""
    taken = rounds_of(tasks, rounds, warm_up=2)
    return {name: summary([1e3 * seconds for seconds in values]) for name, values in taken.items()}


def summary(milliseconds: list[float]) -> dict[str, float]:
    """Return median, 95th percentile and maximum of many times."""
    median, late = np.percentile(milliseconds, [50, 95])
    return {
        "median_ms": round(float(median), 1),
        "p95_ms": round(float(late), 1),
        "max_ms": round(max(milliseconds), 1),
    }


def time_pair(view: InfusedView, address: str, n_tokens: int, rounds: int) -> dict[str, Any]:
    """Time one length: the viewer through its socket, the bare model, and the steps inside an answer."""
    text, pair = pair_of(view, n_tokens)
    texts = (pair_of(view, n_tokens, seed)[0] for seed in itertools.count())
    names = itertools.cycle(source["name"] for source in view.about()["sources"])
    infused = view.infused.batch([text], [pair])
    plain = {name: tensor for name, tensor in infused.items() if not name.startswith("knowledge_")}
    steps: dict[str, list[float]] = {"model": [], "parts": [], "json": []}
    size = 0

    def ask(**question: Any) -> None:
        nonlocal size
        answer = client.post("/api/see", json={"text": text, "pair": pair, "layer": 3, **question})
        assert answer.status_code == 200, answer.text
        size = len(answer.content)

    def ask_new() -> None:
        nonlocal text
        text = next(texts)
        ask(head=1)

    @torch.inference_mode()
    def bare() -> None:
        view.infused.model(**plain)
        view.infused.model(**infused)

    def inside() -> None:
        times = [time.perf_counter()]
        explanation = view.see(ViewRequest(text, pair, frozenset([next(names)]), 3, 1))
        times.append(time.perf_counter())
        parts = explanation_parts(explanation)
        times.append(time.perf_counter())
        json.dumps(parts, ensure_ascii=False).encode()
        times.append(time.perf_counter())
        for taken, (before, after) in zip(steps.values(), itertools.pairwise(times), strict=True):
            taken.append(1e3 * (after - before))

    with httpx.Client(base_url=address, timeout=60) as client:
        times = in_turn(
            {
                "a new text": ask_new,
                "another head": lambda: ask(head=2),
                "a source off": lambda: ask(head=2, off=[next(names)]),
                "all on again": lambda: ask(head=2),
                "bare model, both passes": bare,
                "inside": inside,
            },
            rounds,
        )
    del times["inside"]
    ratio = times["all on again"]["median_ms"] / times["bare model, both passes"]["median_ms"]
    within = {name: round(float(np.median(taken[2:])), 1) for name, taken in steps.items()}
    return {"tokens": n_tokens, **times, "ratio": round(ratio, 2), "inside_median_ms": within, "answer_bytes": size}


@contextmanager
def server_process() -> Iterator[tuple[str, psutil.Process]]:
    """Yield address and process of a fresh `infuser view`, which tells its address when the model is loaded."""
    command = [sys.executable, "-m", "infuser", "view", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1], psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def first_pictures(rounds: int) -> dict[str, Any]:
    """Return the seconds from a fresh server to the first heat map of attention in an open browser."""
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {"skipped": "Playwright is not installed"}
    if browser_path is None:
        return {"skipped": "there is no chromium on the PATH"}
    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(CHROMIUM))
        for _ in range(rounds):
            page = browser.new_page()
            with server_process() as (address, _):
                began = time.perf_counter()
                page.goto(address)
                page.wait_for_selector("[data-part=attention] svg image", timeout=60_000)
                seconds.append(round(time.perf_counter() - began, 3))
                page.close()
        browser.close()
    return {"seconds": seconds, "target_seconds": TARGET_PICTURE_S}


async def load(
    view: InfusedView, address: str, server: psutil.Process, n_clients: int, seconds: float
) -> dict[str, Any]:
    """Ask from many clients for so long, and return answers, errors, times and the server's memory."""
    statuses: Counter[str] = Counter()
    milliseconds: list[float] = []
    memory = [server.memory_info().rss / 1e6]
    end = time.perf_counter() + seconds

    async def read_memory() -> None:
        while time.perf_counter() < end:
            await asyncio.sleep(1)
            memory.append(server.memory_info().rss / 1e6)

    async def keep_asking(number: int) -> None:
        text, pair = pair_of(view, LENGTHS[number % 4], seed=number)
        off = switches(view)
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            for turn in itertools.count():
                if time.perf_counter() >= end:
                    return
                began = time.perf_counter()
                question = {"text": f"{turn // 8} {text}", "pair": pair, "off": next(off), "layer": "strongest"}
                try:
                    answer = await client.post("/api/see", json=question)
                except httpx.HTTPError as error:
                    statuses[type(error).__name__] += 1
                    continue
                statuses[str(answer.status_code)] += 1
                milliseconds.append(1e3 * (time.perf_counter() - began))
                if answer.status_code != 200:
                    await asyncio.sleep(float(answer.headers.get("retry-after", 1)))

    await asyncio.gather(read_memory(), *(keep_asking(number) for number in range(n_clients)))
    return {
        "clients": n_clients,
        "seconds": seconds,
        "requests": sum(statuses.values()),
        "statuses": dict(statuses),
        "errors": sum(n for status, n in statuses.items() if status != "200"),
        **summary(milliseconds),
        "memory_mb": {
            "before": round(memory[0]),
            "after 10 s": round(memory[min(10, len(memory) - 1)]),
            "peak": round(max(memory)),
            "end": round(memory[-1]),
            "every second": [round(one) for one in memory],
        },
    }


def main() -> None:
    """Measure everything, print it and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="Requests of each kind.")
    parser.add_argument("--seconds", type=float, default=60, help="How long the clients ask.")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    view = open_default()
    rows = []
    with running(view) as address:
        for n_tokens in LENGTHS:
            rows.append(time_pair(view, address, n_tokens, given.rounds))
            print(json.dumps(rows[-1]), flush=True)
    pictures = first_pictures(3)
    print(json.dumps({"first picture": pictures}), flush=True)
    with server_process() as (address, server):
        loaded = asyncio.run(load(view, address, server, given.clients, given.seconds))
    print(json.dumps({"load": loaded}), flush=True)
    facts = about("torch", threads=torch.get_num_threads(), load=os.getloadavg())
    target = {"tokens": TARGET_LENGTH, "ms": TARGET_MS}
    result = {"about": facts, "target": target, "rows": rows, "first picture": pictures, "load": loaded}
    write_result(given.out, result)
    print()
    kinds = ("a new text", "another head", "a source off", "all on again", "bare model, both passes")
    for row in rows:
        print(f"{row['tokens']:4} tokens: " + ", ".join(f"{kind} {row[kind]['median_ms']:.0f} ms" for kind in kinds))
    print(f"Target: {TARGET_LENGTH} tokens in {TARGET_MS} ms, the first picture in {TARGET_PICTURE_S} s: {pictures}")
    print(f"{given.clients} clients: {loaded['errors']} errors, {loaded['memory_mb']['peak']} MB at most")


if __name__ == "__main__":
    main()
