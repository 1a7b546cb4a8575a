"""`infuser linker train`: put a knowledge base inside an encoder and train its linker."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Literal

from infuser.cli import linker_options as shared
from infuser.cli.console import loading, resumable, say, training_progress
from infuser.cli.options import Checkpoint, Paths, option, option_groups
from infuser.errors import InputError


@option_groups
def train(
    checkpoint: Checkpoint,
    out: shared.OutFolder,
    links: Annotated[Paths, option("Texts with links: JSON lines, ELEVANT, AIDA. Repeatable.", metavar="FILE")] = None,
    corpus: Annotated[Paths, option("Texts without links: .txt, .jsonl, .csv ... Repeatable.", metavar="FILE")] = None,
    dev: Annotated[Paths, option("Texts with links to measure the linker on. Repeatable.", metavar="FILE")] = None,
    format: shared.LinkFormat = "auto",
    text_column: shared.TextColumn = "text",
    limit: shared.TextLimit = None,
    layer: Annotated[int | None, option("Block behind which it stands, from 0.", default="the last but one")] = None,
    threshold: Annotated[float, option("Candidates with a lower score (no probability) are not linked.")] = 0.0,
    task: Annotated[
        Literal["encoder", "masked-lm", "pretraining"],
        option("The head that the model keeps; `infuser linker pretrain` needs one of the last two."),
    ] = "encoder",
    restart: shared.Restart = False,
    loss: shared.Loss = "margin",
    epochs: Annotated[int, shared.setting("How often each text is seen.", min=1)] = 3,
    batch_size: shared.BatchSize = 32,
    learning_rate: Annotated[float, shared.setting("Peak learning rate of the linker.")] = 1e-3,
    max_words: Annotated[int, shared.setting("Longer texts are read in windows of so many words.", min=8)] = 200,
    workers: shared.Workers = 0,
    seed: Annotated[int, shared.setting("Decides order, dropout and where the linker starts.")] = 0,
    *,
    knowledge: shared.BaseOptions,
) -> None:
    """Put a knowledge base inside an encoder and teach its linker what mentions mean.

    Only the linker learns; the encoder stays as it is. With --corpus no
    labels are needed. With both, the corpus comes first. A command that was
    stopped resumes from its last checkpoint when it is run again.

    Examples:
      infuser linker train minilm --candidates C --vectors V --links L --out RUN
      infuser linker train minilm --candidates C --vectors V --corpus T --out RUN
      infuser link RUN --text "Jordan played in Chicago."
    """
    if not links and not corpus:
        raise InputError("Give what to learn from: --links FILE with known links, --corpus FILE without, or both.")
    from infuser.linking.texts import read_windows

    base = knowledge.open()
    linked, measured = (shared.read_linked(paths, format, base) for paths in (links, dev))
    unlabelled = read_windows(corpus, text_column, limit, max_words) if corpus else []
    with loading(checkpoint) as progress:
        import transformers

        from infuser.experiments.linkers import run_linker
        from infuser.experiments.run_folder import RunFolder
        from infuser.hosts.checkpoints import find_checkpoint, is_infused
        from infuser.infused import infuse
        from infuser.linking.training import LINKER
        from infuser.methods import Kar

        method = Kar(layers=None if layer is None else {base.name: layer}, threshold=threshold)
        folder = find_checkpoint(checkpoint, progress)
        transformers.set_seed(seed)  # the linker starts at random
        infused = infuse(folder, method, sources=[base], task=task)
    if is_infused(folder):
        say(f"{checkpoint} is infused already: a linker of the same shape starts from its weights.", err=True)
    settings = replace(LINKER, epochs=epochs, batch_size=batch_size, seed=seed, n_workers=workers)
    run = RunFolder(out)
    with resumable():
        scores = run_linker(
            run,
            infused,
            base,
            linked=linked,
            unlabelled=unlabelled,
            dev=measured,
            loss=loss,
            settings=replace(settings, learning_rate=learning_rate, new_learning_rate=learning_rate),
            max_words=max_words,
            made_with={"checkpoint": checkpoint, "task": task, "method": asdict(method)},
            restart=restart,
            report=say,
            progress=training_progress(),
        )
    if scores:
        shared.print_scores(scores)
    shared.print_next(run.model, joint=None if task == "encoder" else f"{out}-joint")
