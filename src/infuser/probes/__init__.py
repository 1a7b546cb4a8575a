"""Encoder in, facts out: what a plain encoder already knows, entity by entity.

| file              | holds                                                                             |
|-------------------|-----------------------------------------------------------------------------------|
| scores            | one score per entity, and the file they are kept in; loads without torch          |
| mentions          | where entities stand in texts, in token positions                                 |
| masked_prediction | how probable an entity's own words are to an encoder that guesses masked words    |
| entity_types      | how well a linear probe reads an entity's type from the states of any encoder     |
"""
