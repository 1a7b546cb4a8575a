"""All tasks: who imports this finds them in `registry.TASKS`. Apart from `__init__`, which training reads, too."""

from infuser.tasks import (  # noqa: F401
    attention_relations,
    commonsense_qa,
    cosmos_qa,
    entity_typing,
    fewrel,
    glue,
    lama,
    quasar_t,
    relevance,
    search_qa,
    semeval_2010_8,
    tabular,
    tacred,
)
