"""Tiny encoders of `transformers` with random weights, as folders of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import (
    BertWordPieceTokenizer,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor

from minbert.data.tokenizer import load_tokenizer
from minbert.model.encoder import Stack, compute_in, initialise, whole_encoder
from minbert.model.hugging_face import convert_hugging_face, write_hugging_face
from minbert.model.packed import Packed
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, Architecture, read_architecture
from minbert.spec.stage import Dropout

TEXT = [
    "a film of great charm and of little else",
    "is the second question the same as the first?",
    "nobody expects, or wants, unaffable heroes: it's too long!",
]
VOCABULARY = 300
POSITIONS = 48
"""The most tokens of a row, in every family."""
LENGTHS = (5, 17, 1, 30, 9, 17, 33, POSITIONS)


def write_word_pieces(folder: Path) -> None:
    """Write BERT's `tokenizer.json` of `VOCABULARY` pieces."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({word.strip(",?:!") for line in TEXT for word in line.split()})
    letters = "abcdefghijklmnopqrstuvwxyz?,!':"
    pieces = list(dict.fromkeys([*special, *words, *letters, *(f"##{c}" for c in letters)]))
    pieces += [f"[unused{n}]" for n in range(VOCABULARY - len(pieces))]
    vocabulary = {piece: n for n, piece in enumerate(pieces)}
    BertWordPieceTokenizer(vocabulary).save(str(folder / "tokenizer.json"))


def _byte_pairs(special: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT * 9, trainer)
    return tokenizer


def write_byte_pairs(folder: Path) -> None:
    """Write RoBERTa's `vocab.json` and `merges.txt`, and its `tokenizer.json`."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = _byte_pairs(special)
    tokenizer.model.save(str(folder))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.save(str(folder / "tokenizer.json"))


def write_marked_byte_pairs(folder: Path) -> None:
    """Write a `tokenizer.json` of byte-level pairs with BERT's special tokens, as ModernBERT's."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer = _byte_pairs(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "sep_token": "[SEP]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named), encoding="utf-8")


BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": POSITIONS,
    "initializer_range": 0.2,
}
DISTILBERT = {
    **{"vocab_size": VOCABULARY, "dim": 24, "n_layers": 3, "n_heads": 4, "hidden_dim": 40},
    **{"max_position_embeddings": POSITIONS, "initializer_range": 0.2},
}
ROBERTA = BERT | {"max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1}
MODERNBERT = {
    **{name: size for name, size in BERT.items() if name != "num_hidden_layers"},
    # Of five layers the first and the fourth attend to all tokens, the others to eight each way.
    **{"num_hidden_layers": 5, "local_attention": 16, "global_attn_every_n_layers": 3},
    **{"cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
    **{"pad_token_id": 3, "reference_compile": False},
}
Kind = tuple[str, dict[str, Any], Callable[[Path], None]]
"""The class in transformers, its settings, and what writes its tokenizer."""

CONFIGS: dict[str, Kind] = {
    "bert": ("Bert", BERT, write_word_pieces),
    "bert, tanh": ("Bert", BERT | {"hidden_act": "gelu_new"}, write_word_pieces),
    "distilbert": ("DistilBert", DISTILBERT, write_word_pieces),
    "roberta": ("Roberta", ROBERTA | {"layer_norm_eps": 0.01}, write_byte_pairs),
    "electra": ("Electra", BERT | {"embedding_size": 16}, write_word_pieces),
    "modernbert": ("ModernBert", MODERNBERT, write_marked_byte_pairs),
    "modernbert, one base": (
        "ModernBert",
        MODERNBERT | {"local_rope_theta": None, "norm_eps": 0.02},
        write_marked_byte_pairs,
    ),
    "electra, as wide": ("Electra", BERT | {"embedding_size": 24}, write_word_pieces),
}
WAYS: dict[str, dict[str, Any]] = {
    "one encoder": {},
    "two layers shared": {"shared_layers": 2},
    "SMART": {"smart": {"weight": 1.0}, "shared_layers": 1},
    "surgery": {"surgery": "pcgrad", "sampler": {"name": "unified"}},
    "adapters": {"trainable": "adapters", "adapter": {"width": 4}},
    "LoRA": {"trainable": "lora", "lora": {"rank": 2}},
    "fusion": {"trainable": "fusion", "fuse": ["a", "b"]},
    "cached features": {"trainable": "heads"},
}
"""Ways of training, as settings of a stage."""

PACKAGED = Path(__file__).parents[1] / "workflow" / "backbone"


def write_tiny(folder: Path, hidden: int = 32, larger: float = 1.0, layers: int = 2) -> Path:
    """Write a small BERT with random weights and the built-in tokenizer; return `folder`.

    The weights are the same each time; `larger` matrices make outputs differ more.
    """
    tokenizer = PACKAGED / "tokenizer.json"
    arch = Architecture(
        vocab_size=load_tokenizer(tokenizer).get_vocab_size(),
        **{"hidden": hidden, "layers": layers, "heads": 2, "intermediate": 2 * hidden},
        positions=512,
    )
    encoder = whole_encoder(arch, Dropout())
    initialise(encoder, torch.Generator().manual_seed(1))
    state = {n: larger * t if t.ndim == 2 else t for n, t in encoder.state_dict().items()}
    folder.mkdir(parents=True)
    write_hugging_face(folder, state, arch, tokenizer, max_length=512)
    return folder


FAMILIES = [name for name in CONFIGS if "," not in name]


def make(kind: Kind, folder: Path, seed: int = 3) -> Any:
    """Write an encoder to `folder`, and return it as transformers reads it."""
    import transformers

    name, settings, write_tokenizer = kind
    torch.manual_seed(seed)
    config = getattr(transformers, f"{name}Config")(**settings)
    model = getattr(transformers, f"{name}Model")(config)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias") or parameter.ndim == 1:  # drawn as 0 or 1
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return type(model).from_pretrained(folder, attn_implementation="eager").eval()


def rows(two_types: bool) -> Packed:
    """Return rows of mixed lengths up to `POSITIONS`; no token is special or padding."""
    draw = torch.Generator().manual_seed(1)
    total = sum(LENGTHS)
    tokens = torch.randint(5, VOCABULARY, (total,), generator=draw)
    types = torch.randint(0, 1 + two_types, (total,), generator=draw)
    return Packed(tokens, types, torch.tensor(LENGTHS), max(LENGTHS))


@torch.no_grad()
def states(reference: Any, batch: Packed, two_types: bool) -> tuple[Tensor, Tensor | None]:
    """Return the last hidden states [T, H] and pooler's output of `batch`, padded, elsewhere."""
    inputs = {}
    for name, each, empty in (
        ("input_ids", batch.tokens, reference.config.pad_token_id),
        ("attention_mask", torch.ones_like(batch.tokens), 0),
        ("token_type_ids", batch.types, 0),
    ):
        flat = torch.full((batch.rows * batch.longest,), empty)
        inputs[name] = flat.index_copy(0, batch.slots, each).view(batch.rows, batch.longest)
    if not two_types:
        del inputs["token_type_ids"]
    found = reference(**inputs)
    return found.last_hidden_state.flatten(0, 1)[batch.slots], getattr(found, "pooler_output", None)


def edit(folder: Path, **settings: Any) -> None:
    """Change settings of the folder's `config.json`."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | settings), encoding="utf-8")


class Made(NamedTuple):
    """An encoder: as transformers reads it, its Hugging Face folder, our backbone folder of it."""

    reference: Any
    theirs: Path
    ours: Path


Folders = dict[str, Made]


def folders_of(base: Path) -> Folders:
    """Make every encoder of `CONFIGS` below the folder `base`."""
    found = {}
    for number, (name, kind) in enumerate(CONFIGS.items()):
        theirs, ours = base / f"{number}-theirs", base / f"{number}-ours"
        reference = make(kind, theirs)
        convert_hugging_face(theirs, ours)
        found[name] = Made(reference, theirs, ours)
    return found


def our_encoder(folder: Path) -> tuple[Stack, Architecture]:
    """Return the encoder of our backbone `folder`."""
    arch = read_architecture(folder / "config.json")
    encoder = whole_encoder(arch, Dropout()).eval()
    encoder.load_state_dict(load_weights(folder / WEIGHTS))
    return encoder, arch


@torch.no_grad()
def difference(made: Made, precision: str = "fp32") -> Tensor:
    """Return how far the last hidden states are from those of transformers, [T, H]."""
    encoder, arch = our_encoder(made.ours)
    compute_in(encoder, precision)
    batch = rows(arch.two_types)
    expected, _ = states(made.reference, batch, arch.two_types)
    return (encoder(batch).float() - expected).abs()
