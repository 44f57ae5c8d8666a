"""The tokens of a folder are those that `transformers` makes of it, or the folder is refused.

A `tokenizer.json` counts as it is where nothing beside it says otherwise. `transformers` 4.57 puts
the defaults of BERT's class over it, so that a cased one alone becomes uncased; that is no case.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import encoders
import pytest
from tokenizers import processors

from minbert.base.errors import UserError
from minbert.data.tokenise import encode
from minbert.data.tokenizer import folder_tokenizer, load_tokenizer
from minbert.spec.hugging_face import from_hugging_face
from minbert.train.examples import frame, special_tokens

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZéüÉç0123456789"
WORDS = "東 京 東京 ##京 😀 the film co ##vid un ##want ##ed café cafe , . ' ! ? [ ]"
PIECES = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS.split()]
CONFIG, FAST = "config.json", "tokenizer.json"
SETTINGS, MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
TEXTS = [
    "[USER] and [user] liked covid19 and covid-19, isn't it?",
    "Café naïve ÉCOLE the東京film 😀 👍🏽",
    "a literal [SEP] and [MASK] , </s> and <mask>",
    "two  spaces\tand a tab",
    "the long film " * 9,
    "\u200d",  # nothing in a WordPiece vocabulary
]
Edit = Callable[[Path], object]


def put(name: str, **values: Any) -> Edit:
    """Merge values into a JSON file of the folder."""

    def edit(folder: Path) -> None:
        path = folder / name
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        path.write_text(json.dumps(found | values), encoding="utf-8")

    return edit


def vocabulary(*more: str, of: list[str] = PIECES) -> Edit:
    """Write a `vocab.txt`, with more pieces at its end."""
    text = "\n".join([*of, *more]) + "\n"
    return lambda folder: (folder / "vocab.txt").write_text(text, encoding="utf-8")


def without(*names: str) -> Edit:
    """Remove files."""
    return lambda folder: [(folder / name).unlink() for name in names]


def saved(*added: str, **settings: Any) -> Edit:
    """Write all that `save_pretrained` writes of the folder's tokenizer, with tokens added."""

    def edit(folder: Path) -> None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, **settings)
        tokenizer.add_tokens(list(added))
        tokenizer.save_pretrained(folder)

    return edit


def frame_pairs_alone(folder: Path) -> None:
    """Put no special tokens around a single sentence."""
    tokenizer = load_tokenizer(folder / FAST)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / FAST))


def alone(name: str) -> Edit:
    """Leave no other file of a tokenizer in the folder."""
    return lambda folder: [p.unlink() for p in folder.iterdir() if p.name not in (CONFIG, name)]


PLAIN = (vocabulary(),)
PIECED = (*PLAIN, saved(), alone(FAST))
# Both are words of the vocabulary, and split as long as nothing says that they are tokens.
USER = (vocabulary("[USER]", "covid19"),)
AT = {"[USER]": len(PIECES), "covid19": len(PIECES) + 1}
MORE = {"additional_special_tokens": ["[USER]", "covid19"]}
FLAGS = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
MASK = FLAGS | {"content": "<mask>"}  # the tokenizer's takes spaces before it along
PAIRS = (encoders.write_byte_pairs, without(FAST), saved(), alone(FAST))
MARKED = (encoders.write_marked_byte_pairs,)
TABLE: dict[str, list[tuple[str, tuple[Edit, ...], str]]] = {
    "bert distilbert electra": [
        ("vocab.txt", PLAIN, ""),
        ("tokenizer.json", PIECED, ""),
        ("as saved", (*PLAIN, saved("[USER]", "covid19")), ""),
        ("added tokens", (*PIECED, put(ADDED, **AT)), f"{ADDED} [USER]"),
        ("more tokens than rows", (*PIECED, put(CONFIG, vocab_size=99)), f"{FAST} vocab_size"),
    ],
    "bert": [
        ("cased", (*PLAIN, put(SETTINGS, do_lower_case=False)), ""),
        ("accents kept", (*PLAIN, put(SETTINGS, strip_accents=False)), ""),
        (
            "cased without accents",
            (*PLAIN, put(SETTINGS, do_lower_case=False, strip_accents=True)),
            "",
        ),
        ("Chinese in words", (*PLAIN, put(SETTINGS, tokenize_chinese_chars=False)), ""),
        ("no basic tokens", (*PLAIN, put(SETTINGS, do_basic_tokenize=False)), ""),
        ("usual special tokens", (*PLAIN, put(MAP, cls_token="[CLS]", sep_token="[SEP]")), ""),
        ("words as added tokens", (*USER, put(ADDED, **AT)), f"{ADDED} [USER]"),
        ("words as special tokens", (*USER, put(MAP, **MORE)), f"{MAP} additional"),
        ("special tokens in settings", (*USER, put(SETTINGS, **MORE)), f"{SETTINGS} additional"),
        (
            "added_tokens_decoder",
            (*PLAIN, put(SETTINGS, added_tokens_decoder={"9": FLAGS | {"content": "[USER]"}})),
            f"{SETTINGS} added_tokens_decoder",
        ),
        ("other first token", (vocabulary("<s>"), put(MAP, cls_token="<s>")), f"{MAP} cls_token"),
        ("no separator", (vocabulary(of=PIECES[:3]),), "vocab.txt [SEP] [MASK]"),
        ("fast, cased", (*PIECED, put(SETTINGS, do_lower_case=False)), f"{SETTINGS} do_lower_case"),
        (
            "fast, settings that its class does not read",
            (
                *PIECED,
                put(SETTINGS, do_lower_case=False, tokenizer_class="PreTrainedTokenizerFast"),
            ),
            "",
        ),
        ("fast, no added tokens", (*PIECED, put(FAST, added_tokens=[])), f"{FAST} added_tokens"),
        ("fast, frames pairs alone", (*PIECED, frame_pairs_alone), f"{FAST} post_processor"),
        ("fast, frames nothing", (*PIECED, put(FAST, post_processor=None)), f"{FAST} post_proc"),
        ("as saved, cased", (*PLAIN, saved(do_lower_case=False)), ""),
        ("as saved, special tokens", (*USER, put(MAP, **MORE), saved()), ""),
        *(
            (kind, (*made, put(where, tokenizer_class=kind)), f"{where} tokenizer_class {kind}")
            for kind, where, made in (
                ("BertJapaneseTokenizer", SETTINGS, PLAIN),
                ("KoBertTokenizer", CONFIG, PIECED),
            )
        ),
        ("vocab.txt, more tokens than rows", (*PLAIN, put(CONFIG, vocab_size=99)), "vocab.txt"),
    ],
    "roberta": [
        ("vocab.json", (encoders.write_byte_pairs, without(FAST)), f"neither {FAST} nor vocab.txt"),
        ("tokenizer.json", PAIRS, ""),
        ("as saved, a space before", (encoders.write_byte_pairs, saved(add_prefix_space=True)), ""),
        ("as saved, added tokens", (encoders.write_byte_pairs, saved("[USER]", "covid19")), ""),
        *(
            (f"fast, {key}", (*PAIRS, put(file, **{key: value})), f"{file} {key}")
            for file, key, value in (
                (SETTINGS, "add_prefix_space", True),
                (ADDED, "covid19", 301),
                (MAP, "cls_token", "film"),
                (SETTINGS, "added_tokens_decoder", {"4": MASK}),
                (SETTINGS, "tokenizer_class", "PhobertTokenizer"),
                (CONFIG, "tokenizer_class", "BertweetTokenizer"),
            )
        ),
        ("word pieces", PLAIN, "vocab.txt model_type"),
        (
            "other weights",
            (encoders.write_word_pieces, put(SETTINGS, tokenizer_class="BertTokenizer")),
            f"{FAST} bos_token_id",
        ),
    ],
    "modernbert": [
        ("tokenizer.json", (*MARKED, alone(FAST)), ""),
        ("as saved, added tokens", (*MARKED, saved("[USER]", "covid19")), ""),
        ("a space before", (*MARKED, put(SETTINGS, add_prefix_space=True)), "add_prefix_space"),
        ("special tokens", (*MARKED, put(MAP, **MORE)), f"{MAP} additional"),
    ],
}


def folder_of(family: str, edits: tuple[Edit, ...], folder: Path) -> Path:
    """Fill a folder with an encoder's `config.json`, and edit it."""
    import transformers

    name, settings, _ = encoders.CONFIGS[family]
    config = getattr(transformers, f"{name}Config")(**settings | {"vocab_size": 310})
    config.save_pretrained(folder)
    for edit in edits:
        edit(folder)
    return folder


def check(folder: Path) -> None:
    """Check a folder's tokens; of two long sentences that are cut, the second keeps the odd one."""
    from transformers import AutoTokenizer

    arch = from_hugging_face(folder / CONFIG)
    ours = folder / "ours.json"
    folder_tokenizer(folder, arch).save(str(ours))
    theirs, special = AutoTokenizer.from_pretrained(folder), special_tokens(ours, arch.two_types)
    ids = dict(zip(TEXTS, encode(load_tokenizer(ours), TEXTS), strict=True))
    for longest in (500, 30, 13, 12):
        for a in TEXTS:
            for b in (None, *TEXTS):
                given = (a,) if b is None else (a, b)
                found = theirs(*given, truncation=True, max_length=longest)
                types = found.get("token_type_ids", []) if arch.two_types else []
                row, kinds = frame(ids[a], ids.get(b), special, longest).tolist()
                assert (row, sum(kinds)) == (found["input_ids"], sum(types)), (given, longest)


@pytest.mark.parametrize(
    ("family", "edits", "named"),
    [
        pytest.param(family, edits, named, id=f"{family}, {name}")
        for families, cases in TABLE.items()
        for family in families.split()
        for name, edits, named in cases
    ],
)
def test_a_folder(family: str, edits: tuple[Edit, ...], named: str, tmp_path: Path) -> None:
    folder = folder_of(family, edits, tmp_path)
    if not named:
        check(folder)
        return
    with pytest.raises(UserError) as told:
        folder_tokenizer(folder, from_hugging_face(folder / CONFIG))
    said = str(told.value)
    assert "\n" not in said and str(folder) in said, said
    assert [word for word in named.split() if word not in said] == [], said


@pytest.mark.parametrize(
    ("family", "edits"),
    [
        ("bert", (*PLAIN, put(ADDED, **AT))),
        ("roberta", (encoders.write_byte_pairs, without(FAST))),
        ("modernbert", (*MARKED, put(SETTINGS, add_prefix_space=True))),
    ],
)
def test_what_a_refusal_advises_is_enough(
    family: str, edits: tuple[Edit, ...], tmp_path: Path
) -> None:
    folder = folder_of(family, edits, tmp_path)
    with pytest.raises(UserError, match=r"Tokenizer\.from_pretrained\(FOLDER\)\.save_pretrained"):
        check(folder)
    saved()(folder)
    check(folder)
