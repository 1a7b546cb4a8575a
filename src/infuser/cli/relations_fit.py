"""`infuser relations fit`: a relation extractor learned from texts with known triples."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from infuser.cli.console import loading, print_next_steps, say
from infuser.cli.knowledge_options import SourceOptions
from infuser.cli.options import argument, option, option_groups
from infuser.cli.relations_options import DATA, CandidateOptions, Encoder, ReadingOptions, RelationDataOptions
from infuser.errors import InputError
from infuser.words import counted

if TYPE_CHECKING:
    from infuser.relations.examples import RelationText
    from infuser.relations.model import AttentionRelations


_setting = partial(option, panel="Learning")


@option_groups
def fit(
    data: Annotated[list[Path], argument(DATA, metavar="DATA...")],
    out: Annotated[Path, option("Folder for the fitted model.")],
    encoder: Encoder = "minilm",
    dev: Annotated[Path | None, option("Other such texts, to set the thresholds by.", metavar="FILE")] = None,
    negatives: Annotated[float, _setting("Triples that are none, for each that is one; the paper has 1.")] = 5.0,
    no_none: Annotated[bool, _setting("Learn no class 'none of them'; as in the paper.", "--no-none")] = False,
    seed: Annotated[int, _setting("Decides which triples that are none it learns from.")] = 0,
    *,
    reading: ReadingOptions,
    candidates: CandidateOptions,
    how: RelationDataOptions,
    sources: SourceOptions,
) -> None:
    """Learn relations from texts with known triples.

    Sources named here find the spans when triples are extracted, and are
    saved with the model. --dev sets the thresholds where strict F1 is highest.

    A line of the data, with places in characters ("trigger" if known):
      {"text": "Bern is the capital of Switzerland.", "triples":
       [{"head": [23, 34], "tail": [0, 4], "relation": "P36"}]}

    Examples:
      infuser relations fit train.jsonl --dev dev.jsonl --out rel
        --source spacy-entities --source spacy-phrases
      infuser relations fit docred.json --source spacy-entities --out rel
        --max-pairs 4000 --max-distance 200
    """
    if negatives <= 0:
        raise InputError(f"--negatives {negatives:g}: give a number above 0.")
    settings = reading.settings()
    with loading("torch and transformers"):
        from infuser.hosts.loading import to_fastest_device
        from infuser.relations.encoders import open_encoder
        from infuser.relations.examples import check_stated
        from infuser.relations.model import AttentionRelations
        from infuser.relations.saving import check_folder, save_with_sources
        from infuser.sources.storage import name_of
    check_folder(out)
    spans, texts = sources.read(), how.read(data)
    tuned_on = None if dev is None else how.read([dev])
    check_stated(settings["relations"], texts)
    with loading(encoder) as progress:
        opened = open_encoder(encoder, progress)
        to_fastest_device(opened.model)
    model = AttentionRelations(
        opened, rule=candidates.rule(), negatives=negatives, none_class=not no_none, seed=seed, **settings
    )
    model.fit(texts, spans=spans, progress=True)
    _print_fit(model, texts)
    say(f"Spans are found by: {', '.join(map(name_of, spans)) or 'no source yet'}")
    source_of = "as in the paper; --dev FILE finds better ones"
    if tuned_on is not None:
        total = model.tune(tuned_on, spans, progress=True).total
        source_of = (
            f"best for {counted(len(tuned_on), 'dev text')}: strict F1 {total.f1:.3f} there, "
            f"precision {total.precision:.3f}, recall {total.recall:.3f}"
        )
    say(f"Thresholds: gate {model.thresholds_.gate:.3g}, best relation {model.thresholds_.best:.3g}, {source_of}")
    unsaved = save_with_sources(model, spans, out)
    for why in unsaved:
        say(f"Not saved, so name it again when extracting: {why}", style="yellow")
    say(f"Model: {out}")
    folder, named = shlex.quote(str(out)), "" if spans and not unsaved else " --source spacy-entities"
    print_next_steps(
        [
            f"infuser relations evaluate {folder} TEST{named}",
            f"infuser relations extract {folder} TEXTS.txt{named} --out triples.jsonl",
            f"infuser relations report {folder} --data TEST --out report",
        ]
    )


def _print_fit(model: AttentionRelations, texts: Sequence[RelationText]) -> None:
    from infuser.relations.examples import count_relations

    n_triples = sum(n for id, n in count_relations(texts).items() if id in model.labels_)
    words = f"with {counted(len(model.triggers_.phrases), 'phrase')} that say them" if model.trigger_ else "as pairs"
    parts = {"gate": model.model_.gate, "relation classifier": model.model_.which}
    ready = [
        f"the {name} {'has converged' if part.converged else 'has not converged: a lower --strength helps'}"
        for name, part in parts.items()
    ]
    say(
        f"{counted(len(model.labels_), 'relation')} learned from {counted(n_triples, 'triple')} in "
        f"{counted(len(texts), 'text')}, {words}; and from {model.n_negatives_:,} that are none"
    )
    say(f"{counted(model.n_unread_, 'triple')} could not be read; {', '.join(ready)}")
