"""Where the time of one text goes in an exported model, without a server: inputs (tokens and knowledge), and graph.

Processor time in one process and one thread, the contestants in turn, the least of many rounds: other programs on the
machine hardly show. KAM in three forms stands beside the plain checkpoint, and beside torch with the same weights.

    python benchmarks/serving_parts.py                   # a few minutes
    python benchmarks/serving_parts.py --operators       # and which operators of the graphs take how long
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serving import LENGTHS, SHAPES, Texts, infuse_as_trained, make
from support.measuring import RESULTS, about, write_result


def make_forms(folder: Path) -> dict[str, Any]:
    """Export KAM's other forms beside what `serving.make` has written; return all exported models by name."""
    from transformers import AutoTokenizer

    from infuser import Kam
    from infuser.hosts.loading import load_model
    from infuser.runtime import load

    tokenizer = AutoTokenizer.from_pretrained(str(folder / "plain"))
    for name, method in (("kernel-1", Kam(kernel_size=1)), ("bias", Kam(fusion="bias"))):
        if not (folder / name).exists():
            host = load_model(str(folder / "plain"), "sequence-classification").eval()
            infuse_as_trained(host, method, folder, tokenizer).export(folder / name)
    folders = {
        "plain": "plain-onnx",
        "kam": "infused-onnx",
        "kam, kernel_size=1": "kernel-1",
        "kam, fusion=bias": "bias",
    }
    return {name: load(folder / place, threads=1) for name, place in folders.items()}


def parts_of(folder: Path, models: dict[str, Any], n_tokens: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the processor milliseconds of each part of each contestant, and the cost over the plain one."""
    import torch
    from transformers import AutoTokenizer

    import infuser
    from infuser.hosts.loading import load_model

    tokenizer = AutoTokenizer.from_pretrained(str(folder / "plain"))
    texts, infused = Texts(tokenizer), infuser.load(folder / "infused")
    plain = load_model(str(folder / "plain"), "sequence-classification").eval()
    least: dict[tuple[str, str], float] = defaultdict(lambda: float("inf"))

    def clock(name: str, part: str, call: Callable[..., Any], *given: Any, **by_name: Any) -> Any:
        began = time.process_time()
        result = call(*given, **by_name)
        least[name, part] = min(least[name, part], 1e3 * (time.process_time() - began))
        return result

    with torch.inference_mode():
        for _ in range(rounds):
            text = texts(n_tokens)
            for name, model in models.items():
                inputs = clock(name, "inputs", model.batch, [text])
                clock(name, "graph", model._session.run, None, inputs)
            batch = clock("torch plain", "inputs", tokenizer, [text], return_tensors="pt")
            clock("torch plain", "graph", plain, **batch)
            batch = clock("torch kam", "inputs", infused.batch, [text])
            clock("torch kam", "graph", infused.model, **batch)
    names = list(dict.fromkeys(name for name, _ in least))
    whole = {name: least[name, "inputs"] + least[name, "graph"] for name in names}
    return {
        name: {
            "inputs_ms": round(least[name, "inputs"], 2),
            "graph_ms": round(least[name, "graph"], 2),
            "over plain": round(whole[name] / whole["plain"], 3),
        }
        for name in names
    }


def operators_of(graph: Path, inputs: dict[str, Any], rounds: int = 20) -> dict[str, float]:
    """Return the milliseconds of the costliest kinds of operators in a graph, each node by its fastest run."""
    import onnxruntime

    from infuser.runtime.loading import NOT_FUSED

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level, options.enable_profiling = 1, 3, True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = f"{folder}/profile"
        session = onnxruntime.InferenceSession(
            str(graph), options, providers=["CPUExecutionProvider"], disabled_optimizers=NOT_FUSED
        )
        for _ in range(rounds):
            session.run(None, inputs)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    fastest: dict[tuple[str, str], float] = defaultdict(lambda: float("inf"))
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            node = event["args"]["op_name"], event["name"]
            fastest[node] = min(fastest[node], event["dur"] / 1e3)
    taken: dict[str, float] = defaultdict(float)
    for (operator, _), milliseconds in fastest.items():
        taken[operator] += milliseconds
    return {name: round(taken[name], 2) for name in sorted(taken, key=taken.__getitem__, reverse=True)[:12]}


def main() -> None:
    """Measure, print and write everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--operators", action="store_true", help="also list the costliest operators of 128 tokens")
    parser.add_argument("--folder", type=Path, help="where models are made, and found again; else a temporary folder")
    parser.add_argument("--out", type=Path, default=RESULTS / "serving_parts.json")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    result: dict[str, Any] = about("torch", "transformers", "onnxruntime", threads=1, rounds=given.rounds)
    result["cpu capability of torch"] = torch.backends.cpu.get_cpu_capability()
    with tempfile.TemporaryDirectory() as temporary:
        for shape in SHAPES:
            folder = (given.folder or Path(temporary)) / shape
            if not (folder / "infused-onnx").exists():
                folder.mkdir(parents=True, exist_ok=True)
                make(folder, shape)
            models = make_forms(folder)
            found = result[shape] = {}
            for n_tokens in LENGTHS:
                found[f"{n_tokens} tokens"] = measured = parts_of(folder, models, n_tokens, given.rounds)
                print(f"{shape}, {n_tokens} tokens")
                for name, one in measured.items():
                    print(f"  {name:20}", "  ".join(f"{key} {value:8.2f}" for key, value in one.items()), flush=True)
            if given.operators:
                text = "the town lies on the river " * 21
                for name, place in (("plain", "plain-onnx"), ("kam", "infused-onnx")):
                    found[f"operators of {name}"] = operators_of(
                        folder / place / "model.onnx", models[name].batch([text])
                    )
                    print(f"  {name}:", found[f"operators of {name}"], flush=True)
    write_result(given.out, result)


if __name__ == "__main__":
    main()
