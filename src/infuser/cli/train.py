"""`infuser train`: fine-tune a checkpoint with knowledge inside, and keep what is needed to use and repeat it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from infuser.cli.console import loading, resumable, say, training_progress
from infuser.cli.knowledge_options import CacheOptions, SourceOptions
from infuser.cli.options import Checkpoint, ColumnOptions, argument, option, option_groups
from infuser.cli.train_options import MethodOptions, TrainOptions
from infuser.cli.train_output import Coverage, print_next, print_scores, print_training
from infuser.errors import InputError
from infuser.words import counted


@option_groups
def train(
    checkpoint: Checkpoint,
    data: Annotated[
        str,
        argument(
            "Training examples: .csv, .tsv, .jsonl, .json or .parquet; for ner CoNLL columns, .jsonl, .json, "
            ".parquet, .spacy, .pubtator or a folder of BRAT; or datasets:NAME[,CONFIG]."
        ),
    ],
    out: Annotated[Path, option("Folder for the model, the record of the run and its checkpoints.")],
    dev: Annotated[
        str | None,
        option(
            "Examples that choose the epochs: a file, or a split of datasets:NAME.",
            metavar="FILE|SPLIT",
            default="the split validation, else a tenth of the data",
        ),
    ] = None,
    test: Annotated[
        str | None, option("Examples to score once, at the end, likewise.", metavar="FILE|SPLIT", default="none")
    ] = None,
    task: Annotated[
        Literal["table", "ner"], option("What is learned: a label for each text, or the entities in it (ner).")
    ] = "table",
    plain: Annotated[bool, option("Train the baseline: the same without knowledge.", "--plain")] = False,
    placebo: Annotated[bool, option("Train the placebo: the knowledge, shuffled between texts.", "--placebo")] = False,
    restart: Annotated[bool, option("Start again instead of resuming.", "--restart")] = False,
    metric: Annotated[
        str | None,
        option(
            "What chooses the epochs on the dev set.",
            default="auc for two labels, accuracy for more, entity-f1 for ner",
            panel="Training",
        ),
    ] = None,
    examples: Annotated[
        int | None,
        option("Train on N of the examples, always the same ones.", metavar="N", default="all", panel="Training"),
    ] = None,
    *,
    columns: ColumnOptions,
    sources: SourceOptions,
    knowledge: MethodOptions,
    caching: CacheOptions,
    training: TrainOptions,
) -> None:
    """Fine-tune an encoder to label texts or find entities in them, with knowledge inside.

    Labels are words or whole numbers; their names are kept in the model. A
    command that was stopped resumes from its last checkpoint when it is run
    again. Knowledge is named by files; for kam each becomes one attention map.

    Examples:
      infuser train minilm train.csv --graph triples.tsv --out runs/mine
      infuser train minilm train.csv --dev dev.csv --plain --out runs/plain
      infuser train minilm train.csv --method kar --candidates c --vectors v ...
      infuser train minilm train.conll --task ner --entities drugs.tsv --out runs/ner
      infuser train minilm datasets:NAME --task ner --test test --plain ...
    """
    if plain and (placebo or knowledge.select is not None):
        raise InputError(f"--plain has no knowledge, so it excludes {'--placebo' if placebo else '--select'}.")
    named = [] if plain else knowledge.sources(sources.read())
    cache = caching.folder()
    with loading("torch and transformers") as fetching:
        from infuser.experiments.arm import Arm, method_for
        from infuser.experiments.data import Annotator
        from infuser.experiments.run_folder import RunFolder
        from infuser.experiments.train import TrainJob
        from infuser.hosts.checkpoints import find_checkpoint, is_infused
        from infuser.processes import is_first_process
        from infuser.sources.selective import read_strategy

        arm = Arm(
            None if plain else method_for(knowledge.method, checkpoint),
            named,
            select=read_strategy(knowledge.select),
            spectral=knowledge.spectral,
            shuffled=placebo,
        )
        job = TrainJob(
            *(checkpoint, arm, data, dev, test),
            columns=columns.columns(),
            n_train=examples,
            settings=training.settings(),
            metric=metric,
            task=task,
        )
        read = job.data
        find_checkpoint(checkpoint, fetching)
    n_dev = counted(len(read.dev), "dev example")
    labels = (
        f"{len(read.labels)} labels" if task == "table" else counted(len(read.labels) // 2, "type") + " of entities"
    )
    say(f"{len(read.train):,} training and {n_dev} of {labels}")
    if is_infused(checkpoint):
        say(f"{checkpoint} is infused already; its encoder is trained further, with new knowledge weights.", err=True)
    run, coverage = RunFolder(out), Coverage()
    annotator = Annotator(cache, report=coverage.print, progress=None)
    with resumable():
        result = job.run(run, restart=restart, annotator=annotator, progress=training_progress())
    if not is_first_process():
        return
    record = run.read()
    print_training(result, record["extra_weights"])
    if test is not None or task != "table":
        print_scores(record)
    print_next(job, str(out), read.dev[coverage.shown])
