"""GLUE's official files in small."""

from __future__ import annotations

from pathlib import Path

PARSES = "sentence1_binary_parse|sentence2_binary_parse|sentence1_parse|sentence2_parse"
PAIRS = "index|sentence1|sentence2"
MNLI = f"index|promptID|pairID|genre|{PARSES}|sentence1|sentence2"


def _parts(columns: str, train: list[str], dev: list[str], test: list[str]) -> dict[str, list[str]]:
    """Return the three files of a set whose test part has the same columns without the label."""
    files = {"train.tsv": [f"{columns}|label", *train], "dev.tsv": [f"{columns}|label", *dev]}
    return {**files, "test.tsv": [columns, *test]}


OFFICIAL = {  # a bar stands for a tab
    "cola": {
        "train.tsv": ['gj04|1||He said "no.', 'gj04|0|*|"They it saw."'],
        "dev.tsv": ["gj04|0|*|Books she."],
        "test.tsv": ["index|sentence", "0|Bill left."],
    },
    "sst-2": {
        "train.tsv": ["sentence|label", "a fine film |1", "dull |0"],
        "dev.tsv": ["sentence|label", "it drags |0"],
        "test.tsv": ["index|sentence", "0|a mishmash"],
        "test-labeled.tsv": ["sentence|label\r", "a mishmash|0\r"],
    },
    "mrpc": {
        "train.tsv": ["\ufeffQuality|#1 ID|#2 ID|#1 String|#2 String", "1|7|8|It fell.|It went down.", "0|1|2|A.|B."],
        "dev.tsv": ["Quality|#1 ID|#2 ID|#1 String|#2 String", "0|3|4|C.|D."],
        "test.tsv": ["index|#1 ID|#2 ID|#1 String|#2 String", "0|5|6|E.|F."],
    },
    "sts-b": {
        "train.tsv": [
            "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score",
            "0|news|f|2012|1|none|none|A plane.|An air plane.|5.000",
            "1|n|f|2012|4|x|y|A.|B.|0.4",
        ],
        "dev.tsv": [
            "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score",
            "0|n|f|2012|4|x|y|C.|D.|3.8",
        ],
        "test.tsv": [
            "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2",
            "0|n|f|2012|4|x|y|E.|F.",
        ],
    },
    "qqp": {
        "train.tsv": ["id|qid1|qid2|question1|question2|is_duplicate", "9|1|2|Why?|Why not?|0", "8|3|4|How?|How so?|1"],
        "dev.tsv": ["id|qid1|qid2|question1|question2|is_duplicate", "7|5|6|Who?|Who is?|1"],
        "test.tsv": ["id|question1|question2", "0|When?|What time?"],
    },
    "mnli": {
        "train.tsv": [
            f"{MNLI}|label1|gold_label",
            "0|1|1n|fiction|(|(|(|(|A.|B.|neutral|neutral",
            "1|2|2c|fiction|(|(|(|(|C.|D.|contradiction|contradiction",
        ],
        "dev_matched.tsv": [
            f"{MNLI}|label1|label2|label3|label4|label5|gold_label",
            "0|1|1e|slate|(|(|(|(|E.|F.|neutral|entailment|entailment|neutral|entailment|entailment",
        ],
        "dev_mismatched.tsv": [f"{MNLI}|label1|gold_label", "0|1|1n|verbatim|(|(|(|(|G.|H.|x|neutral"],
        "test_matched.tsv": [MNLI, "0|1|1n|slate|(|(|(|(|I.|J."],
        "test_mismatched.tsv": [MNLI, "0|1|1n|verbatim|(|(|(|(|K.|L."],
    },
    "qnli": _parts(
        "index|question|sentence",
        ["0|Who?|He.|entailment", "1|Why?|It is.|not_entailment"],
        ["0|When?|In 1066.|entailment"],
        ["0|How?|So."],
    ),
    "rte": _parts(
        PAIRS, ["0|A fell.|A moved.|entailment", "1|A.|B.|not_entailment"], ["0|C.|D.|not_entailment"], ["0|E.|F."]
    ),
    "wnli": _parts(PAIRS, ["0|It broke.|The cup broke.|1", "1|A.|B.|0"], ["0|C.|D.|0"], ["0|E.|F."]),
}


def write_files(folder: Path, files: dict[str, list[str]]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (folder / name).write_bytes("".join(line.replace("|", "\t") + "\n" for line in lines).encode())
    return str(folder)
