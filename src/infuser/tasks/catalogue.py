"""All tasks: who imports this finds them in `registry.TASKS`. Apart from `__init__`, which training reads, too."""

from infuser.tasks import (  # noqa: F401
    attention_relations,
    biored,
    chemprot,
    crossner,
    ddi,
    entity_typing,
    glue,
    lama,
    multiple_choice,
    ner,
    open_qa,
    relation_classification,
    relevance,
    tabular,
)
