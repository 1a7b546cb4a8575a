"""`infuser train`: what it leaves behind, how it goes on, and which mistakes it catches before the work begins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli.commands import COLUMNS, error_of, run_command, save_checkpoint, write_lines
from cli.small_linkers import save_linker, write_knowledge

import infuser
from infuser.methods.together import name_of
from infuser.registry import METHODS
from infuser.sources import Graph, KnowledgeBase, Selective
from infuser.tasks.splitting import subset


def test_a_run_leaves_a_model_and_a_record(trained: Path) -> None:
    record = json.loads((trained / "train.json").read_text())
    assert record["finished"] and record["versions"]["infuser"] == infuser.__version__
    assert record["result"]["metric"] == "auc" and 0 <= record["result"]["best"] <= 1
    assert record["result"]["new_weights"] > 0
    assert record["made_with"]["learning_rate"] == 0.003
    assert record["made_with"]["arm"] == "kam" and record["made_with"]["columns"]["text"] == "query"
    assert {Path(file["path"]).name for file in (record["files"]["data"], record["files"]["dev"])} == {
        "train.csv",
        "dev.csv",
    }
    infused = infuser.load(trained / "model")
    assert infused.model.config.id2label == {0: "bad", 1: "good"}
    assert isinstance(infused.sources[0], Graph) and len(infused.sources[0].triples) == 8


def test_the_same_command_again_changes_nothing(trained: Path, checkpoint: Path, task: Path) -> None:
    weights = (trained / "model" / "model.safetensors").read_bytes()
    result = run_command(
        *("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", "--out", trained, *COLUMNS),
        *("--graph", task / "triples.tsv", "--aliases", task / "names.tsv"),
        *("--epochs", 4, "--batch-size", 8, "--learning-rate", 0.003, "--new-learning-rate", 0.01),
    )
    assert "12 links in 12 of 24 training texts" in result.output
    assert "step" not in result.stderr  # nothing was left to do
    assert (trained / "model" / "model.safetensors").read_bytes() == weights


def test_the_end_says_what_to_try_next(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("train", checkpoint, task / "train.csv", "--out", out, *COLUMNS, "--epochs", 1, "--batch-size", 8)
    told = run_command(*arguments, "--graph", task / "triples.tsv").output
    assert "22 training and 2 dev examples of 2 labels" in told  # a tenth of each label, rounded, is held out
    assert "Best dev auc" in told
    assert f"infuser predict {out / 'model'} NEW.csv" in told
    assert f"infuser explain {out / 'model'} --text" in told


def test_a_run_made_with_something_else_is_not_continued(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    data = ("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", "--out", tmp_path / "run", *COLUMNS)
    run_command(*data, "--plain", "--epochs", 1)
    told = error_of(*data, "--plain", "--epochs", 2)
    assert "epochs was 1, is 2" in told and "--restart" in told
    names = write_lines(tmp_path / "names.txt", "glipizide")
    assert "knowledge was []" in error_of(*data, "--entities", names, "--epochs", 1)
    result = run_command(*data, "--entities", names, "--epochs", 1, "--restart")
    assert "6 links in 6 of 24 training texts" in result.output
    assert (tmp_path / "run" / "model" / "infuser.json").exists()


def test_a_baseline_is_a_plain_checkpoint(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    data = ("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", "--out", tmp_path / "run", *COLUMNS)
    run_command(*data, "--plain", "--epochs", 1)
    model = tmp_path / "run" / "model"
    assert (model / "model.safetensors").exists() and not (model / "infuser.json").exists()
    assert "bad" in run_command("predict", model, "--text", "buy glipizide").output


def test_a_placebo_reads_other_links_and_is_written_down_as_one(
    trained: Path, checkpoint: Path, task: Path, tmp_path: Path
) -> None:
    data = ("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", "--out", tmp_path / "run", *COLUMNS)
    told = run_command(
        *(*data, "--graph", task / "triples.tsv", "--aliases", task / "names.tsv", "--placebo", "--epochs", 2),
        *("--examples", 12, "--spectral", 0.01, "--batch-size", 8),
        *("--learning-rate", 0.003, "--new-learning-rate", 0.01),
    )
    assert "12 training and 24 dev examples" in told.output and "infuser diagnose RUN" in told.output
    record = json.loads((tmp_path / "run" / "train.json").read_text())
    made_with = record["made_with"]
    assert (made_with["arm"], made_with["n_examples"], made_with["spectral"]) == ("placebo", 12, 0.01)
    assert made_with["knowledge"] == json.loads((trained / "train.json").read_text())["made_with"]["knowledge"]
    assert "spectral" in told.stderr  # the penalty is a part of the loss that is shown
    assert record["result"]["best"] < 0.7  # shuffled links say nothing about the dev words
    assert isinstance(infuser.load(tmp_path / "run" / "model").sources[0], Graph)
    assert "excludes --placebo" in error_of(*data, "--plain", "--placebo")
    assert "from 2 to 24" in error_of(*data, "--plain", "--examples", 25)


def test_sampled_knowledge_is_saved_with_the_model(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    data = ("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", "--out", tmp_path / "run", *COLUMNS)
    run_command(*data, "--graph", task / "triples.tsv", "--select", "sampling", "--epochs", 1)
    assert json.loads((tmp_path / "run" / "train.json").read_text())["made_with"]["select"] == "sampling"
    (source,) = infuser.load(tmp_path / "run" / "model").sources
    assert type(source).__name__ == "Selective" and source.strategy.frequencies["glipizide"] == 6  # type: ignore[attr-defined]
    assert "excludes --select" in error_of(*data, "--plain", "--select", "sampling")


def test_few_examples_keep_the_labels_in_proportion_and_are_a_part_of_more() -> None:
    labels = ["rare"] * 10 + ["usual"] * 90
    few, more = (subset(100, n, seed=3, strata=labels) for n in (20, 50))
    assert [sum(labels[place] == "rare" for place in chosen) for chosen in (few, more)] == [2, 5]
    assert set(few) < set(more)
    assert {labels[place] for place in subset(100, 2, seed=0, strata=labels)} == {"rare", "usual"}
    assert subset(100, 20, seed=4, strata=labels) != few
    assert subset(100, 100, seed=4, strata=labels) == list(range(100))


def test_a_head_for_other_labels_is_replaced(task: Path, tmp_path: Path) -> None:
    classifier = save_checkpoint(tmp_path / "three", "sequence-classification")  # it has three labels
    data = ("train", classifier, task / "train.csv", "--dev", task / "dev.csv", "--out", tmp_path / "run", *COLUMNS)
    run_command(*data, "--entities", write_lines(tmp_path / "names.txt", "adze"), "--epochs", 1)
    assert infuser.load(tmp_path / "run" / "model").model.config.num_labels == 2


def test_an_infused_model_is_trained_on_with_new_knowledge_weights(trained: Path, task: Path, tmp_path: Path) -> None:
    data = ("train", trained / "model", task / "train.csv", "--dev", task / "dev.csv", "--out", tmp_path / "run")
    names = write_lines(tmp_path / "names.txt", "adze")
    result = run_command(*data, *COLUMNS, "--entities", names, "--phrases", names, "--epochs", 1)
    assert "infused already" in result.stderr
    assert len(infuser.load(tmp_path / "run" / "model").sources) == 2


def test_whole_numbers_are_labels_in_their_order(checkpoint: Path, tmp_path: Path) -> None:
    lines = [
        f'{{"text": "the {word}", "label": {label}}}' for word, label in zip("abcd" * 3, (2, 10, 1) * 4, strict=True)
    ]
    data = write_lines(tmp_path / "train.jsonl", *lines)
    result = run_command(
        *("train", checkpoint, data, "--dev", data, "--out", tmp_path / "run", "--epochs", 1),
        *("--phrases", write_lines(tmp_path / "phrases.txt", "the a")),
    )
    assert "Best dev accuracy" in result.output  # with three labels
    assert infuser.load(tmp_path / "run" / "model").model.config.id2label == {0: "1", 1: "2", 2: "10"}


def test_knowledge_that_reaches_no_text_is_pointed_out(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    names = write_lines(tmp_path / "names.txt", "Timbuktu")
    data = ("train", checkpoint, task / "train.csv", "--dev", task / "dev.csv", *COLUMNS, "--epochs", 1)
    told = run_command(*data, "--entities", names, "--out", tmp_path / "run").output
    assert (
        "entities: 0 mentions in 0 and 0 links in 0 of 24 training texts" in told
        and "knows nothing about these texts" in told
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["text,label", "a,0", '"b,1'], ["line 3", "quote"]),
        (["text,label", "a,0", "b"], ["line 3", "1 cell", "text, label"]),
        (["tekst,label", "a,0", "b,1"], ["line 2", "'text'", "Did you mean 'tekst'?", "tekst, label", "--text-column"]),
        (["text,klasse", "a,0", "b,1"], ["line 2", "'label'", "text, klasse", "--label-column"]),
        (["text,label", "a,0", "b,"], ["line 3", "label"]),
        (["text,label", "a,0", "b,0"], ["label '0'"]),
        (
            ["text,label", "a,0.5", "b,1"],
            ["0.5, but this command trains classifiers. For scores, use infuser.train in Python with num_labels=1"],
        ),
        (["text,label"], ["no examples"]),
        ([], ["empty"]),
        (["text,text,label", "a,a,0"], ["same name"]),
    ],
)
def test_a_broken_table_is_refused_with_its_place(lines: list[str], words: list[str], tmp_path: Path) -> None:
    data = write_lines(tmp_path / "train.csv", *lines)
    told = error_of("train", "minilm", data, "--plain", "--out", tmp_path / "out")
    assert all(word in told for word in ["train.csv" if len(words) > 1 else "", *words]), told


def test_a_dev_label_that_training_does_not_have_is_named(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "train.csv", "text,label", "a,yes", "b,no")
    dev = write_lines(tmp_path / "dev.csv", "text,label", "a,yes", "b,perhaps")
    told = error_of("train", "minilm", data, "--dev", dev, "--plain", "--out", tmp_path / "out")
    assert "dev.csv, line 3" in told and "'perhaps'" in told and "no, yes" in told


def test_training_without_knowledge_must_be_asked_for(tmp_path: Path) -> None:
    data = write_lines(tmp_path / "train.csv", "text,label", "a,yes", "b,no")
    assert "--plain" in error_of("train", "minilm", data, "--out", tmp_path / "out")


def test_an_unknown_metric_is_refused_before_the_work(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    data = ("train", checkpoint, task / "train.csv", "--out", tmp_path / "run", *COLUMNS, "--plain")
    assert "Did you mean 'accuracy'?" in error_of(*data, "--metric", "acuracy")


def test_a_folder_with_a_model_of_another_origin_is_left_alone(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "run" / "model")
    data = ("train", checkpoint, task / "train.csv", "--out", tmp_path / "run", *COLUMNS, "--plain", "--restart")
    assert "Choose another --out" in error_of(*data)
    assert (tmp_path / "run" / "model" / "config.json").exists()


@pytest.mark.parametrize("method", ["kar", "ernie"])
def test_entities_of_a_knowledge_base_are_put_inside_by_name(
    method: str, checkpoint: Path, task: Path, tmp_path: Path
) -> None:
    candidates, vectors = write_knowledge(tmp_path)
    base = ("--method", method, "--candidates", candidates, "--vectors", vectors)
    common = ("train", checkpoint, task / "train.csv", *COLUMNS, "--epochs", 1, "--batch-size", 8)
    run_command(*common, *base, "--select", "sampling", "--out", tmp_path / "run")
    infused = infuser.load(tmp_path / "run" / "model")
    assert METHODS.name_of(infused.method) == method
    assert json.loads((tmp_path / "run" / "train.json").read_text())["made_with"]["arm"] == method
    assert isinstance(infused.sources[0], Selective) and infused.sources[0].dim == 8
    if method == "kar":  # its linker was never taught, so every candidate counts; a trained one keeps its threshold
        assert infused.method.threshold == -100
        taught = save_linker(tmp_path / "taught", threshold=0.25)
        run_command("train", taught, *common[2:], *base, "--out", tmp_path / "further")
        assert infuser.load(tmp_path / "further" / "model").method.threshold == 0.25
    alone = error_of(*common, *base[:4], "--out", tmp_path / "other")
    assert f"--method {method} reads a knowledge base: give --candidates DIR and --vectors DIR" in alone
    assert "kam reads links between words" in error_of(*common, *base[2:], "--out", tmp_path / "other")
    graph = ("--graph", task / "triples.tsv")
    assert "give --candidates DIR and --vectors DIR, alone" in error_of(
        *common, *base, *graph, "--out", tmp_path / "other"
    )


@pytest.mark.slow
def test_methods_are_trained_together_and_named_by_their_parts(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    common = ("train", checkpoint, task / "train.csv", *COLUMNS, "--graph", task / "triples.tsv", "--epochs", 1)
    run_command(*common, "--method", "types+kam", "--out", tmp_path / "run")
    infused = infuser.load(tmp_path / "run" / "model")
    assert name_of(infused.method) == "types+kam"
    assert json.loads((tmp_path / "run" / "train.json").read_text())["made_with"]["arm"] == "types+kam"
    assert infused.vocabulary.types[0][-1] == "other" and len(infused.vocabulary.relations[0]) > 1

    candidates, vectors = write_knowledge(tmp_path)
    base = ("--candidates", candidates, "--vectors", vectors)
    run_command(*common, "--method", "types+kar", *base, "--out", tmp_path / "both")
    assert [type(source) for source in infuser.load(tmp_path / "both" / "model").sources] == [Graph, KnowledgeBase]

    def error(*options: object) -> str:
        return " ".join(error_of(*common, *options, "--out", tmp_path / "other").split())

    assert "--method types+kamm: no method is called 'kamm'. Did you mean 'kam'?" in error("--method", "types+kamm")
    assert "types+kam reads mentions and links between words" in error("--method", "types+kam", *base)
    assert "--method types+kar reads a knowledge base: give --candidates DIR and --vectors DIR." in error(
        "--method", "types+kar"
    )


def test_another_selection_in_the_same_file_is_another_run(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    graph = ("--graph", task / "triples.tsv")
    texts = ("--text-column", "query", "--pair-column", "ad")
    run_command("select", task / "train.csv", *texts, *graph, "--out", tmp_path / "s.json")
    data = ("train", checkpoint, task / "train.csv", *COLUMNS, *graph, "--epochs", 1, "--out", tmp_path / "run")
    run_command(*data, "--select", tmp_path / "s.json")
    run_command("select", task / "train.csv", *texts, *graph, "--out", tmp_path / "s.json", "--rare", 1)
    assert "select was sampling" in error_of(*data, "--select", tmp_path / "s.json")


def test_a_damaged_record_does_not_stand_in_the_way_of_a_restart(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    data = ("train", checkpoint, task / "train.csv", *COLUMNS, "--plain", "--epochs", 1, "--out", tmp_path / "run")
    run_command(*data)
    (tmp_path / "run" / "train.json").write_text("{")
    assert "is damaged" in error_of(*data)
    run_command(*data, "--restart")
    assert json.loads((tmp_path / "run" / "train.json").read_text())["finished"]


@pytest.mark.slow
def test_two_launched_processes_train_one_run(checkpoint: Path, task: Path, tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "infuser"]
    command = [*launch, "train", checkpoint, task / "train.csv", *COLUMNS, "--graph", task / "triples.tsv"]
    done = subprocess.run(
        [*map(str, command), "--epochs", "1", "--batch-size", "8", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((tmp_path / "run" / "train.json").read_text())
    assert record["finished"] and record["n_processes"] == 2
    assert infuser.load(tmp_path / "run" / "model").n_new_weights() > 0
