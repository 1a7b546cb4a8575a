"""What an encoder already knows, entity by entity and relation by relation.

| file               | holds                                                                             |
|--------------------|-----------------------------------------------------------------------------------|
| mentions           | where entities stand in texts, in token positions                                 |
| masked_prediction  | how probable an entity's own words are to an encoder that guesses masked words    |
| entity_types       | how well a linear probe reads an entity's type from the states of any encoder     |
| entities           | either of the two, for a checkpoint by name                                       |
| relations          | how well a linear probe reads relations from attention, beside its controls       |
| relation_rows      | the triples that it asks about, as many that are none, and their features         |
| relation_fits      | gate and classifier, fitted here or by an extractor: answers, scores, weights     |
| relation_notes     | what a report says about how it was made                                          |
| relation_knowledge | one score per relation and entity, by cross-validation                            |
| result             | `ProbeReport`: the numbers and the sentences about them                           |

The scores of entities and relations are kept in files: `infuser.knowledge.entity_scores`.
"""
