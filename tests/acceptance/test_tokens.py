"""The tokens of a folder are those that `transformers` makes of it, or the folder is refused.

Each case is a folder in Hugging Face's layout, given as `backbone`. What the plan and its jobs make
of it (`tokens.parquet`, framed as a stage frames it) is compared with
`AutoTokenizer.from_pretrained(folder)`: ids, token types and attention of sentences and of pairs. A
refusal is one line that names the file and the key that are in the way.

A `tokenizer.json` counts as it is where nothing beside it says otherwise. `transformers` 4.57 puts
the defaults of BERT's class over it, so that a cased one alone becomes uncased; that is no case.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import encoders
import numpy as np
import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError
from minbert.commands.plan import read_plan
from minbert.spec.architecture import read_architecture
from minbert.store.job import Job
from minbert.train.examples import frame, special_tokens

from .folder_edits import (
    ADDED,
    AT,
    CONFIG,
    MAP,
    SETTINGS,
    Edit,
    decoder,
    only,
    put,
    rows,
    saved,
    vocabulary,
)

REPOSITORY = Path(__file__).parents[2]
CONFIGURATION = """\
grids: [{base}/g.yaml]
results: {base}/results
data: builtin
tasks:
  one:
    {{kind: binary, sentence1: a, label: label,
      files: {{train: {base}/one.jsonl, dev: {base}/dev.jsonl}}}}
  two:
    {{kind: binary, sentence1: a, sentence2: b, label: label,
      files: {{train: {base}/two.jsonl, dev: {base}/dev.jsonl}}}}
"""
GRID = """\
paper: p
title: T
overall: plain
variants:
  v:
    tasks:
      one: {loss: binary_cross_entropy}
      two: {loss: binary_cross_entropy, pairing: cross}
"""
TEXTS = [
    "The film is unwanted, isn't it?",
    "[USER] and [user] liked covid19 and covid-19",
    "Café naïve ÉCOLE",
    "東京 the東京film",
    "so good 😀 👍🏽",
    "a literal [SEP] and [MASK] , </s> and <mask>",
    "two  spaces\tand a tab",
    "the long film " * 9,
]
WHOLE = 500
"""More tokens than any pair of them has."""
NO_TOKENS = "\u200d"
"""A text of which nothing is left in a WordPiece vocabulary."""


def cases(**tables: dict[str, tuple[Any, ...]]) -> list[Any]:
    """Return the cases of tables by family: a name, edits, and the words of a refusal, if any."""
    return [
        pytest.param(family, edits, named.split(), id=f"{family}, {name}")
        for families, table in tables.items()
        for family in families.split("_")
        for name, (*edits, named) in table.items()
    ]


PLAIN = (vocabulary(),)
FAST = (*PLAIN, saved(), only("tokenizer.json"))
# Both are words of the vocabulary, and split as long as nothing says that they are tokens.
USER = (vocabulary("[USER]", "covid19"),)
USER_FAST = (*USER, saved(), only("tokenizer.json"))
BOTH = {"[USER]": AT, "covid19": AT + 1}
MORE = {"additional_special_tokens": ["[USER]", "covid19"]}
USUAL = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
SIMPLE_CASES = {
    "vocab.txt": (*PLAIN, ""),
    "tokenizer.json": (*FAST, ""),
    "as saved": (*PLAIN, saved("[USER]", "covid19"), ""),
    "added tokens": (*FAST, put(ADDED, **BOTH), f"{ADDED} [USER]"),
    "more tokens than rows": (*FAST, rows(100), "tokenizer.json vocab_size"),
}
PIECE_CASES = {
    **SIMPLE_CASES,
    "cased": (*PLAIN, put(SETTINGS, do_lower_case=False), ""),
    "accents kept": (*PLAIN, put(SETTINGS, strip_accents=False), ""),
    "cased without accents": (
        *(*PLAIN, put(SETTINGS, do_lower_case=False, strip_accents=True)),
        "",
    ),
    "Chinese in words": (*PLAIN, put(SETTINGS, tokenize_chinese_chars=False), ""),
    "no basic tokens": (*PLAIN, put(SETTINGS, do_basic_tokenize=False), ""),
    "usual special tokens": (*PLAIN, put(MAP, **USUAL), ""),
    "words as added tokens": (*USER, put(ADDED, **BOTH), f"{ADDED} [USER]"),
    "special tokens": (*USER, put(MAP, **MORE), f"{MAP} additional"),
    "special tokens in settings": (*USER, put(SETTINGS, **MORE), f"{SETTINGS} additional"),
    "added_tokens_decoder": (
        *(*PLAIN, put(SETTINGS, added_tokens_decoder=decoder("[USER]", "covid19"))),
        f"{SETTINGS} added_tokens_decoder",
    ),
    "another first token": (vocabulary("<s>"), put(MAP, cls_token="<s>"), f"{MAP} cls_token"),
    "tokenizer.json, cased in settings": (
        *(*FAST, put(SETTINGS, do_lower_case=False)),
        f"{SETTINGS} do_lower_case",
    ),
    "tokenizer.json, settings that its class does not read": (
        *FAST,
        put(SETTINGS, do_lower_case=False, tokenizer_class="PreTrainedTokenizerFast"),
        "",
    ),
    "tokenizer.json, words as special tokens": (*USER_FAST, put(MAP, **MORE), f"{MAP} additional"),
    "tokenizer.json, special tokens that it does not add": (
        *(*FAST, put("tokenizer.json", added_tokens=[])),
        "tokenizer.json added_tokens",
    ),
    "as saved, cased": (*PLAIN, saved(do_lower_case=False), ""),
    "as saved, special tokens": (*USER, put(MAP, **MORE), saved(), ""),
    **{
        f"{kind} in {where}": (*made, put(where, tokenizer_class=kind), f"{where} tokenizer_class")
        for kind, where, made in (
            ("BertJapaneseTokenizer", SETTINGS, PLAIN),
            ("KoBertTokenizer", CONFIG, FAST),
        )
    },
    "byte pairs": (
        *(encoders.write_byte_pairs, only("vocab.json", "merges.txt")),
        "neither tokenizer.json nor vocab.txt",
    ),
    "fewer tokens than rows": (*PLAIN, rows(700), ""),
    "vocab.txt, more tokens than rows": (*PLAIN, rows(100), "vocab.txt vocab_size"),
}

PAIRS = (encoders.write_byte_pairs, only("vocab.json", "merges.txt"))
FAST_PAIRS = (*PAIRS, saved(), only("tokenizer.json"))
AFTER = {"[USER]": encoders.VOCABULARY, "covid19": encoders.VOCABULARY + 1}
MASK = {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False}
BYTE_CASES = {
    "vocab.json": (*PAIRS, "neither tokenizer.json nor vocab.txt"),
    "tokenizer.json": (*FAST_PAIRS, ""),
    "as saved": (encoders.write_byte_pairs, saved(), ""),
    "as saved, a space before": (encoders.write_byte_pairs, saved(add_prefix_space=True), ""),
    "as saved, added tokens": (
        *(encoders.write_byte_pairs, rows(310), saved("[USER]", "covid19")),
        "",
    ),
    **{
        f"tokenizer.json, {said}": (
            *(*FAST_PAIRS, rows(310), put(file, **said)),
            f"{file} {next(iter(said))}",
        )
        for file, said in (
            (SETTINGS, {"add_prefix_space": True}),
            (ADDED, AFTER),
            (MAP, MORE),
            (MAP, {"cls_token": "film"}),
            (SETTINGS, {"tokenizer_class": "PhobertTokenizer"}),
            (CONFIG, {"tokenizer_class": "BertweetTokenizer"}),
        )
    },
    "tokenizer.json, a mask that takes spaces along": (
        *(encoders.write_byte_pairs, only("tokenizer.json")),
        put(SETTINGS, added_tokens_decoder={"4": MASK}),
        f"{SETTINGS} added_tokens_decoder",
    ),
    "word pieces": (*PLAIN, "vocab.txt model_type"),
    "fewer tokens than rows": (*FAST_PAIRS, rows(700), ""),
    "more tokens than rows": (*FAST_PAIRS, rows(200), "tokenizer.json vocab_size"),
}
MARKED = (encoders.write_marked_byte_pairs, rows(310))
MARKED_CASES = {
    "tokenizer.json": (*MARKED, only("tokenizer.json"), ""),
    "as saved": (*MARKED, saved(), ""),
    "as saved, added tokens": (*MARKED, saved("[USER]", "covid19"), ""),
    "a space before": (
        *(*MARKED, put(SETTINGS, add_prefix_space=True)),
        f"{SETTINGS} add_prefix_space",
    ),
    "added tokens": (*MARKED, put(ADDED, **AFTER), f"{ADDED} [USER]"),
    "special tokens": (*MARKED, put(MAP, **MORE), f"{MAP} additional"),
    "fewer tokens than rows": (*MARKED, rows(700), ""),
    "more tokens than rows": (*MARKED, rows(200), "tokenizer.json vocab_size"),
}


@dataclass(frozen=True)
class Made:
    """The example and token tables of the tasks' train splits, and the folder of our backbone."""

    texts: list[tuple[str, ...]]
    tokens: list[tuple[np.ndarray, ...]]
    backbone: Path

    def sequences(self, longest: int) -> Iterator[tuple[list[int], list[int], list[int]]]:
        """Yield ids, token types and attention of each row, as a stage is given them."""
        arch = read_architecture(self.backbone / "config.json")
        special = special_tokens(self.backbone / "tokenizer.json", arch.two_types)
        for first, *rest in self.tokens:
            ids, of_type_1 = frame(first, rest[0] if rest else None, special, longest)
            types = [0] * (len(ids) - of_type_1) + [1] * of_type_1
            yield ids.tolist(), types, [1] * len(ids)


def made_of(backbone: Path, base: Path) -> Made:
    """Plan with a backbone, and make its tokens as the workflow's jobs do."""
    plan = read_plan([base / "config.yaml"], [f"backbone={backbone}"], base)
    for node in plan.nodes.values():
        if node.kind in ("data", "backbone", "tokens") and not node.done(plan.root):
            described = {**node.describe(), "extra": node.extra}
            import_module(node.maker).make(Job(plan.root, described, None, 1))

    def read(node: Any, file: str, *names: str) -> list[tuple[Any, ...]]:
        table = pq.read_table(node.folder(plan.root) / file).to_pylist()
        picked = (row for row in table if row["split"] == "train")
        return [tuple(row[n] for n in names if row[n] is not None) for row in picked]

    texts, tokens = [], []
    for task in ("one", "two"):
        of_data, of_tokens = plan.sources.data(task), plan.sources.tokens(task)
        texts += read(of_data, "examples.parquet", "sentence1", "sentence2")
        tokens += read(of_tokens, "tokens.parquet", "tokens1", "tokens2")
    arrays = [tuple(np.array(ids, np.int32) for ids in row) for row in tokens]
    return Made(texts, arrays, plan.sources.backbone.folder(plan.root))


def theirs(folder: Path) -> Any:
    """Return the tokenizer of `transformers`; None if it has none for the folder."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder)
    except Exception:  # It says so in many ways.
        return None


def check(folder: Path, base: Path, named: list[str]) -> None:
    """Check that our tokens of a folder are those of `transformers`, or that it is refused."""
    reference = theirs(folder)
    try:
        made = made_of(folder, base)
    except UserError as error:
        said = str(error)
        assert named and "\n" not in said and str(folder) in said, said
        assert [word for word in named if word not in said] == [], said
        return
    assert reference is not None, "transformers has no tokenizer for it, and it is not refused"
    two_types = read_architecture(made.backbone / "config.json").two_types
    for longest in (WHOLE, 12):
        for texts, found in zip(made.texts, made.sequences(longest), strict=True):
            if longest == WHOLE or len(texts) == 1:
                assert found == sequence(reference, texts, longest, two_types), texts


def sequence(
    reference: Any, texts: tuple[str, ...], longest: int, two_types: bool
) -> tuple[list[int], list[int], list[int]]:
    """Return ids, token types and attention of a sentence or pair, as `transformers` has them."""
    found = reference(*texts, truncation=True, max_length=longest)
    ids, attention = found["input_ids"], found["attention_mask"]
    return ids, found["token_type_ids"] if two_types else [0] * len(ids), attention


def write_rows(path: Path, texts: list[tuple[str, str]]) -> None:
    """Write a `.jsonl` of sentences or pairs."""
    rows_ = [{"a": a, "b": b, "label": n % 2} for n, (a, b) in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_), encoding="utf-8")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder to plan in, with the data of two tasks: sentences, and pairs of them."""
    return project(tmp_path_factory.mktemp("base"), [(a, b) for a in TEXTS for b in TEXTS])


def project(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    """Fill a folder to plan in."""
    (folder / "workflow").mkdir()
    shutil.copy2(REPOSITORY / "workflow" / "published.csv", folder / "workflow")
    (folder / "g.yaml").write_text(GRID, encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIGURATION.format(base=folder), encoding="utf-8")
    write_rows(folder / "one.jsonl", [(text, "") for text in [*TEXTS, NO_TOKENS]])
    write_rows(folder / "two.jsonl", pairs)
    write_rows(folder / "dev.jsonl", [(f"dev {n}", f"dev {n}") for n in range(4)])
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a folder of each family with `config.json` and weights, and no tokenizer."""
    found = {}
    for family in encoders.FAMILIES:
        name, settings, _ = encoders.CONFIGS[family]
        found[family] = tmp_path_factory.mktemp(family)
        encoders.make((name, settings, lambda folder: None), found[family])
    return found


FAMILY_FILES = dict.fromkeys(("bert", "distilbert", "electra"), PLAIN) | {
    **{"roberta": FAST_PAIRS, "modernbert": MARKED}
}


@pytest.mark.parametrize(
    ("family", "edits", "named"),
    cases(
        bert=PIECE_CASES,
        distilbert_electra=SIMPLE_CASES,
        roberta=BYTE_CASES,
        modernbert=MARKED_CASES,
    ),
)
def test_a_folder(
    family: str,
    edits: list[Edit],
    named: list[str],
    models: dict[str, Path],
    base: Path,
    tmp_path: Path,
) -> None:
    check(edited(models[family], edits, tmp_path / "model"), base, named)


def edited(model: Path, edits: list[Edit], folder: Path) -> Path:
    """Copy a model's folder, and edit it."""
    shutil.copytree(model, folder)
    for edit in edits:
        edit(folder)
    return folder


@pytest.mark.parametrize(
    ("family", "edits"),
    [
        ("bert", (*PLAIN, put(ADDED, **BOTH))),
        ("distilbert", (*USER_FAST, put(MAP, **MORE))),
        ("roberta", (*FAST_PAIRS, put(SETTINGS, add_prefix_space=True))),
        ("roberta", PAIRS),
        ("modernbert", (*MARKED, put(SETTINGS, add_prefix_space=True))),
    ],
)
def test_what_a_refusal_advises_is_enough(
    family: str, edits: tuple[Edit, ...], models: dict[str, Path], base: Path, tmp_path: Path
) -> None:
    folder = edited(models[family], edits, tmp_path / "model")
    with pytest.raises(
        UserError, match=r"AutoTokenizer\.from_pretrained\(FOLDER\)\.save_pretrained"
    ):
        made_of(folder, base)
    saved()(folder)
    check(folder, base, [])


@pytest.mark.parametrize("family", encoders.FAMILIES)
def test_a_pair_is_cut_as_by_transformers(
    family: str, models: dict[str, Path], base: Path, tmp_path: Path
) -> None:
    """Where both sentences are cut, the longer keeps the odd token: the second of two as long."""
    folder = edited(models[family], FAMILY_FILES[family], tmp_path / "model")
    reference, made = theirs(folder), made_of(folder, base)
    two_types = read_architecture(made.backbone / "config.json").two_types
    for longest in (12, 13, 30):
        for texts, found in zip(made.texts, made.sequences(longest), strict=True):
            assert found == sequence(reference, texts, longest, two_types), (texts, longest)


@pytest.mark.parametrize("texts", [(NO_TOKENS, "the film"), ("the film", NO_TOKENS)])
def test_a_sentence_of_no_tokens_in_a_pair(
    texts: tuple[str, str], models: dict[str, Path], tmp_path: Path
) -> None:
    folder = edited(models["bert"], PLAIN, tmp_path / "model")
    (tmp_path / "base").mkdir()
    check(folder, project(tmp_path / "base", [texts, ("a", "the film")]), [])
