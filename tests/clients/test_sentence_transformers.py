"""sentence-transformers with knowledge: vectors, training with its losses, saving, reranking."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from miniatures import HOSTS, N_POSITIONS, tiny_host, tiny_tokenizer
from sentence_transformers import CrossEncoder, SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder import losses as cross_losses
from sentence_transformers.sentence_transformer import losses
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.sentence_transformer.training_args import SentenceTransformerTrainingArguments
from tiny_infusions import KNOWN_TEXT, infuse_tiny, shake

import infuser
from infuser.clients.sentence_transformers import InfusedCrossEncoder, InfusedTransformer
from infuser.errors import InputError
from infuser.hosts import is_new_weight
from infuser.methods import Kar, Text

TEXTS = [KNOWN_TEXT, "buy glipizide tablets", "cheap medicine", "the train of the town runs to the town"]
TRIPLES = [("glipizide", "is a", "medicine"), ("warfarin", "is a", "medicine"), ("rhine", "is a", "river")]
TRIPLES += [("aare", "is a", "river")]


def graph_model(**options: Any) -> infuser.Infused:
    """Return a model that can be saved, with a graph that knows what medicines and rivers are."""
    infused = infuser.infuse(
        tiny_host("bert", options.pop("head", "encoder"), initializer_range=0.1, **options).float(),
        sources=[infuser.Graph(TRIPLES)],
        tokenizer=tiny_tokenizer("bert"),
    )
    shake(infused.model)
    return infused


def sentences(infused: infuser.Infused, mode: str = "mean", **options: Any) -> Any:
    return SentenceTransformer(
        modules=[InfusedTransformer(infused, **options), Pooling(infused.model.config.hidden_size, mode)], device="cpu"
    )


def rows(n: int) -> list[tuple[str, str, float]]:
    """Return pairs of texts, and 1.0 where the second names the kind of the first."""
    kinds = {"glipizide": "medicine", "warfarin": "medicine", "rhine": "river", "aare": "river"}
    names = list(kinds)
    found = []
    for i in range(n):
        name, kind = names[i % 4], ("medicine", "river")[(i // 4) % 2]
        found.append((f"the {name} in town", f"a {kind} of {name}", float(kinds[name] == kind)))
    return found


# Vectors


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_vectors_are_those_of_embed_with_and_without_knowledge(host: str, mode: str) -> None:
    infused = infuse_tiny(host)
    model = sentences(infused, mode)
    told = model.encode(TEXTS, batch_size=2, convert_to_tensor=True)
    expected = infused.embed(TEXTS, pooling=mode, normalize=False)  # type: ignore[arg-type]
    torch.testing.assert_close(told.double(), expected, atol=1e-6, rtol=0)
    with infused.disabled():
        bare = model.encode(TEXTS, batch_size=2, convert_to_tensor=True)
        torch.testing.assert_close(
            bare.double(), infused.embed(TEXTS, pooling=mode, normalize=False), atol=1e-6, rtol=0
        )  # type: ignore[arg-type]
    assert (told - bare).abs().max() > 1e-3
    plain = infused.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = infused.model.base_model(**plain).last_hidden_state
    mask = plain["attention_mask"][..., None]
    expected = states[:, 0] if mode == "cls" else (states * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(bare.double(), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("method", ["types", "kar", "types+kar", "kam-types"])
def test_every_method_works(method: str) -> None:
    infused = infuse_tiny("bert", method=method)
    told = sentences(infused).encode(TEXTS, convert_to_tensor=True)
    torch.testing.assert_close(told.double(), infused.embed(TEXTS, normalize=False), atol=1e-6, rtol=0)


def test_written_knowledge_is_read() -> None:
    infused = infuser.infuse(
        tiny_host("bert"), Text(), sources=[infuser.Entities.tiny()], tokenizer=tiny_tokenizer("bert")
    )
    texts = ["Bern lies on the Aare", "a town"]
    told = sentences(infused).encode(texts, convert_to_tensor=True)
    torch.testing.assert_close(told.double(), infused.embed(texts, normalize=False), atol=1e-6, rtol=0)


def test_a_prompt_stands_before_the_texts_and_may_be_left_out_of_the_mean() -> None:
    infused = infuse_tiny("bert")
    model = sentences(infused)
    told = model.encode(TEXTS, prompt="buy the ", convert_to_tensor=True)
    expected = infused.embed([f"buy the {text}" for text in TEXTS], normalize=False)
    torch.testing.assert_close(told.double(), expected, atol=1e-6, rtol=0)
    apart = SentenceTransformer(
        modules=[InfusedTransformer(infused), Pooling(16, "mean", include_prompt=False)], device="cpu"
    )
    told = apart.encode([TEXTS[1]], prompt="buy the ", convert_to_tensor=True)
    states = infused.encode([f"buy the {TEXTS[1]}"])[0]
    torch.testing.assert_close(told[0].double(), states[3:].mean(dim=0), atol=1e-6, rtol=0)


def test_long_texts_are_cut_where_the_model_ends_or_earlier() -> None:
    infused = infuse_tiny("bert")
    model = sentences(infused)
    assert model.max_seq_length == N_POSITIONS
    assert model.preprocess([f"{KNOWN_TEXT} " * 40])["input_ids"].shape == (1, N_POSITIONS)
    model.max_seq_length = 8
    assert model.preprocess([KNOWN_TEXT])["input_ids"].shape == (1, 8)
    assert sentences(infused, max_seq_length=6).preprocess([KNOWN_TEXT])["input_ids"].shape == (1, 6)


@pytest.mark.parametrize("given", [[1], [("a", "b", "c")], [("a", "b"), "c"], [{"text": "a"}]])
def test_other_inputs_are_refused(given: list[Any]) -> None:
    with pytest.raises(InputError, match="give texts, or pairs of two texts"):
        InfusedTransformer(infuse_tiny("bert")).preprocess(given)


# Training


def arguments(folder: Path, kind: Any = SentenceTransformerTrainingArguments, **options: Any) -> Any:
    settings = {"num_train_epochs": 12, "per_device_train_batch_size": 4, "learning_rate": 5e-3, "seed": 0}
    settings |= {"report_to": [], "disable_tqdm": True, "use_cpu": True, "save_strategy": "no", "logging_steps": 4}
    return kind(output_dir=str(folder), **{**settings, **options})


def new_weights(infused: infuser.Infused) -> dict[str, torch.Tensor]:
    return {name: w.detach().clone() for name, w in infused.model.named_parameters() if is_new_weight(name)}


def loss_of(model: Any, data: Dataset, loss: Any) -> float:
    columns = [name for name in data.column_names if name != "score"]
    features = [model.preprocess(data[name]) for name in columns]
    labels = torch.tensor(data["score"]) if "score" in data.column_names else None
    model.eval()
    with torch.no_grad():
        return float(loss(features, labels))


def made_losses(model: Any) -> dict[str, tuple[Any, Dataset]]:
    pairs = [(one, other) for one, other, score in rows(8) if score]
    texts = {"anchor": [one for one, _ in pairs], "positive": [other for _, other in pairs]}
    scored = {name: list(column) for name, column in zip(("one", "other", "score"), zip(*rows(8), strict=True))}  # noqa: B905
    return {
        "ranking": (losses.MultipleNegativesRankingLoss(model), Dataset.from_dict(texts)),
        "cosine": (losses.CosineSimilarityLoss(model), Dataset.from_dict(scored)),
        "cached": (
            losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=2),
            Dataset.from_dict(texts),
        ),
        "layers": (
            losses.AdaptiveLayerLoss(model, losses.CosineSimilarityLoss(model)),
            Dataset.from_dict(scored),
        ),
        "triplet": (
            losses.TripletLoss(model),
            Dataset.from_dict({**texts, "negative": texts["positive"][::-1]}),
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ranking", "cosine", "cached", "layers", "triplet"])
def test_losses_train_the_knowledge_weights(name: str, tmp_path: Path) -> None:
    infused = graph_model()
    model = sentences(infused)
    loss, data = made_losses(model)[name]
    judge = made_losses(model)["cosine" if name == "layers" else "ranking" if name == "cached" else name]
    before, start = new_weights(infused), loss_of(model, judge[1], judge[0])
    trainer = SentenceTransformerTrainer(model=model, args=arguments(tmp_path), train_dataset=data, loss=loss)
    trainer.train()
    assert loss_of(model, judge[1], judge[0]) < 0.9 * start
    after = new_weights(infused)
    moved = [one for one in before if not torch.equal(after[one], before[one])]
    assert len(moved) == len(before)


def test_the_gradient_of_a_loss_reaches_the_knowledge_weights() -> None:
    infused = infuse_tiny("bert", shaken=False)
    model = sentences(infused)
    loss = losses.MultipleNegativesRankingLoss(model)
    loss([model.preprocess(TEXTS[:2]), model.preprocess(TEXTS[2:])], None).backward()
    maps = [w.grad for name, w in infused.model.named_parameters() if name.endswith("knowledge.maps")]
    assert maps and all(gradient is not None and gradient.abs().max() > 0 for gradient in maps)


def test_cached_losses_cut_no_knowledge_away_with_padding() -> None:
    from sentence_transformers.base.losses.gradcache import _create_minibatch

    infused = infuse_tiny("bert")
    model = sentences(infused)
    for width in range(1, 12):  # some of these batches hold as many boxes, spans or ties as tokens
        texts = ["cheap medicine", " ".join(["town"] * width)]
        features = model.preprocess(texts)
        n_tokens = features["input_ids"].shape[1]
        assert all(value.shape[1] != n_tokens for name, value in features.items() if name.startswith("knowledge"))
        part = _create_minibatch(dict(features), 0, 1)
        told = model(part)["sentence_embedding"]
        torch.testing.assert_close(told, infused.embed(texts[:1], normalize=False), atol=1e-6, rtol=0)


# Saving


IN_A_NEW_PROCESS = """
import json, sys
from sentence_transformers import CrossEncoder, SentenceTransformer
kind, folder, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
model = {"s": SentenceTransformer, "c": CrossEncoder}[kind](folder, device="cpu", trust_remote_code=True)
print(json.dumps((model.encode(texts) if kind == "s" else model.predict(texts)).tolist()))
"""


def told_by_a_new_process(kind: str, folder: Path, texts: list[Any]) -> Any:
    command = [sys.executable, "-c", IN_A_NEW_PROCESS, kind, str(folder), json.dumps(texts)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_saved_model_gives_the_same_vectors_in_a_new_process(tmp_path: Path) -> None:
    texts = ["the glipizide medicine", "the aare is a river", "nothing known"]
    model = sentences(graph_model(), max_seq_length=20)
    expected = model.encode(texts)
    model.save_pretrained(str(tmp_path / "saved"))
    listed = json.loads((tmp_path / "saved" / "modules.json").read_text())
    assert listed[0]["type"] == "infuser.clients.sentence_transformers.InfusedTransformer"
    np.testing.assert_allclose(told_by_a_new_process("s", tmp_path / "saved", texts), expected, atol=1e-7)
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    assert again.max_seq_length == 20 and np.array_equal(again.encode(texts), expected)
    again.save_pretrained(str(tmp_path / "saved"))  # in its own place
    infused = infuser.load(tmp_path / "saved" / "0_InfusedTransformer")
    told = infused.collator(max_length=20)
    assert infused.sources == (infuser.Graph(TRIPLES),) and told is not None


@pytest.mark.slow
def test_training_goes_on_from_a_checkpoint_and_loads_the_best_one(tmp_path: Path) -> None:
    def trained(folder: Path, epochs: int, resume: bool) -> dict[str, torch.Tensor]:
        infused = graph_model()
        model = sentences(infused)
        loss, data = made_losses(model)["cosine"]
        options = {"save_strategy": "epoch", "eval_strategy": "epoch", "lr_scheduler_type": "constant"}
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments(folder, num_train_epochs=epochs, load_best_model_at_end=True, **options),
            train_dataset=data,
            eval_dataset=data,
            loss=loss,
        )
        trainer.train(resume_from_checkpoint=resume)
        return new_weights(infused)

    trained(tmp_path / "one", 1, resume=False)
    resumed = trained(tmp_path / "one", 2, resume=True)
    straight = trained(tmp_path / "two", 2, resume=False)
    for name, weight in straight.items():
        torch.testing.assert_close(resumed[name], weight, atol=1e-6, rtol=1e-5, msg=name)


def test_a_module_takes_its_folders_along_if_it_shall(tmp_path: Path) -> None:
    from infuser.knowledge.graph.build import build_graph, facts_of
    from infuser.knowledge.graph.store import save_graph

    save_graph(build_graph(facts_of(TRIPLES, {})), tmp_path / "graph")
    infused = infuser.infuse(
        tiny_host("bert"), sources=[infuser.Graph(tmp_path / "graph")], tokenizer=tiny_tokenizer("bert")
    )
    sentences(infused, portable=True).save_pretrained(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "0_InfusedTransformer" / "sources" / "folders").is_dir()
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    assert again[0].portable


# Rerankers


def reranker(n_labels: int = 1) -> tuple[infuser.Infused, Any]:
    infused = graph_model(head="sequence-classification", num_labels=n_labels)
    return infused, CrossEncoder(modules=[InfusedCrossEncoder(infused)], device="cpu")


@pytest.mark.parametrize("n_labels", [1, 3])
def test_a_reranker_gives_the_scores_of_the_head(n_labels: int) -> None:
    infused, model = reranker(n_labels)
    pairs = [(one, other) for one, other, _ in rows(6)]
    assert model.num_labels == n_labels
    told = model.predict(pairs, convert_to_tensor=True)
    batch = infused.batch(*map(list, zip(*pairs, strict=True)))
    with torch.no_grad():
        logits = infused.model(**batch).logits
    expected = logits[:, 0].sigmoid() if n_labels == 1 else logits
    torch.testing.assert_close(told, expected, atol=1e-6, rtol=0)
    with infused.disabled():
        assert (model.predict(pairs, convert_to_tensor=True) - told).abs().max() > 1e-5
    if n_labels == 1:
        ranked = model.rank("the glipizide", ["a medicine", "a river", "a glipizide"])
        scores = [one["score"] for one in ranked]
        assert scores == sorted(scores, reverse=True) and {one["corpus_id"] for one in ranked} == {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "ranking"])
def test_a_reranker_is_trained_saved_and_loaded_in_a_new_process(kind: str, tmp_path: Path) -> None:
    infused, model = reranker()
    listed = [one for one in rows(8) if kind == "binary" or one[2]]
    data = Dataset.from_dict({name: list(column) for name, column in zip(("one", "other"), list(zip(*listed))[:2])})  # noqa: B905
    if kind == "binary":
        data = data.add_column("label", [score for *_, score in listed])  # type: ignore[call-arg]
    loss: Any = {
        "binary": cross_losses.BinaryCrossEntropyLoss,
        "ranking": cross_losses.MultipleNegativesRankingLoss,
    }[kind](model)
    before = new_weights(infused)
    trainer = CrossEncoderTrainer(
        model=model,
        args=arguments(tmp_path / "run", CrossEncoderTrainingArguments, learning_rate=1e-2),
        train_dataset=data,
        loss=loss,
    )
    found: Any = trainer.train()
    logged = [one["loss"] for one in trainer.state.log_history if "loss" in one]
    assert logged[-1] < 0.95 * logged[0] and found.global_step > 0
    assert all(not torch.equal(weight, before[name]) for name, weight in new_weights(infused).items())
    pairs = [list(one[:2]) for one in listed]
    expected = model.predict(pairs)
    model.save_pretrained(str(tmp_path / "saved"))
    np.testing.assert_allclose(told_by_a_new_process("c", tmp_path / "saved", pairs), expected, atol=1e-6)


def test_a_model_without_a_head_is_no_reranker() -> None:
    with pytest.raises(InputError, match="task='sequence-classification', num_labels=1"):
        InfusedCrossEncoder(infuse_tiny("bert"))


def test_knowledge_bases_are_read_in_pairs() -> None:
    infused = infuse_tiny("bert", "sequence-classification", Kar(), num_labels=1)
    model = CrossEncoder(modules=[InfusedCrossEncoder(infused)], device="cpu")
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3])]
    with torch.no_grad():
        expected = infused.model(**infused.batch(TEXTS[::2], TEXTS[1::2])).logits[:, 0].sigmoid()
    torch.testing.assert_close(model.predict(pairs, convert_to_tensor=True), expected, atol=1e-6, rtol=0)
