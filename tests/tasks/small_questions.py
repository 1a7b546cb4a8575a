"""Two questions with passages, and a task that reads them."""

from __future__ import annotations

from infuser.tasks.open_qa import SearchQa

TASK = SearchQa("nowhere")
QUESTIONS = [
    {
        "text": "where lies the old bridge",
        "pair": ["the lake is blue and big", "the old bridge lies in the Green Town near the river"],
        "answers": ["green town"],
    },
    {
        "text": "what runs from the city",
        "pair": ["a red train runs from the city to the lake", "the garden of the house is small"],
        "answers": ["a Train", "red train"],
    },
]
