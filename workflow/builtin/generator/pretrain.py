"""The built-in backbone: a small BERT, pretrained as BERT was (Devlin et al., 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from generator.unlabelled import Item, told_apart, unlabelled_text
from generator.vocabulary import train_vocabulary
from minbert.base.files import write_json
from minbert.base.progress import Progress
from minbert.model.encoder import Embeddings, Layer, Stack, initialise, whole_encoder
from minbert.model.packed import Packed
from minbert.model.pooling.cls import ClsPooling
from minbert.model.pooling.mean import MeanPooling
from minbert.spec.architecture import Architecture
from minbert.spec.stage import Dropout, Optimiser
from minbert.train.examples import Sequences, frame, special_tokens
from minbert.train.optimiser import AdamW
from minbert.train.schedules.linear import linear

PAIRS_ALONE = 0.3
"""The share of steps, at the start, without masked words: guessing words from the first step on
would undo the matching of words that attention starts with."""

TEMPERATURE = 0.05
"""What cosines are divided by in the contrast of sentences (Gao et al., 2021)."""

MASKED = 0.15
"""The share of tokens that are predicted."""

WORDS_FIRST = {"position": 0.25, "token_type": 0.4}
"""Factors on the other embeddings, so that the word dominates a token's first state."""


@dataclass(frozen=True)
class Recipe:
    """The backbone's shapes and its pretraining on `texts` texts, which later passes see again."""

    texts: int = 24_000
    steps: int = 4000
    batch: int = 32
    lr: float = 7e-4
    vocabulary: int = 2000
    layers: int = 2
    hidden: int = 128
    heads: int = 2
    intermediate: int = 512


@dataclass(frozen=True)
class Text:
    """Pretraining text as sequences: first `texts` rows as written, then mismatched pairs.

    `pairs` [P] are the rows of pairs; row `strangers[i]` has the second sentence of another pair,
    rows `alone[i]` [P, 2] have the sentences of pair i, each alone, and `apart[i]` numbers what
    tells its second sentence from others. `words` is the size of the vocabulary, `mask` the mask's
    id.
    """

    sequences: Sequences
    texts: int
    pairs: np.ndarray
    strangers: np.ndarray
    alone: np.ndarray
    apart: np.ndarray
    words: int
    mask: int


def write_backbone(folder: Path, recipe: Recipe, seed: int) -> None:
    """Learn a vocabulary and pretrain; write a Hugging Face folder, its weights in float16."""
    folder.mkdir(parents=True, exist_ok=True)
    items = unlabelled_text(seed, recipe.texts)
    texts = (text for item in items for text in ([item] if isinstance(item, str) else item))
    train_vocabulary(texts, recipe.vocabulary, folder / "tokenizer.json")
    encoder, arch = pretrain(recipe, seed, folder / "tokenizer.json")
    weights: dict[str, Tensor] = {}
    for ours, tensor in encoder.state_dict().items():
        names = arch.hugging_face(ours)
        parts = tensor.to(torch.float16).chunk(len(names))
        weights |= {name: part.clone() for name, part in zip(names, parts, strict=True)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": arch.vocab_size,
        "hidden_size": arch.hidden,
        "num_hidden_layers": arch.layers,
        "num_attention_heads": arch.heads,
        "intermediate_size": arch.intermediate,
        "max_position_embeddings": arch.positions,
        "type_vocab_size": arch.types,
        "layer_norm_eps": arch.layer_norm_eps,
        "hidden_act": "gelu",
        "pad_token_id": 0,
        "torch_dtype": "float16",
    }
    write_json(folder / "config.json", config)


def pretrain(recipe: Recipe, seed: int, tokenizer: Path) -> tuple[Stack, Architecture]:
    """Pretrain on unlabelled text, on one CPU thread; return the encoder and its shapes.

    Masked language modelling and next-sentence prediction (Devlin et al., 2019, section 3.1): half
    of the pairs get a second sentence from elsewhere. Beside them, sentences encoded alone are
    contrasted, so that embeddings of one sentence mean something from the start. Attention starts
    as `mimetic` draws it. There is no dropout: the model is small and sees most texts only a few
    times.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    text = _read(tokenizer, unlabelled_text(seed, recipe.texts))
    arch = Architecture(
        vocab_size=text.words,
        hidden=recipe.hidden,
        layers=recipe.layers,
        heads=recipe.heads,
        intermediate=recipe.intermediate,
        positions=512,
    )
    model = MaskedLanguageModel(arch)
    mimetic(model.encoder)
    chosen = Optimiser(lr=recipe.lr, weight_decay=0.01, betas=(0.9, 0.98), eps=1e-8)
    optimiser = AdamW(model.parameters(), chosen, linear(recipe.steps, 0.06))
    generator = torch.Generator().manual_seed(seed)
    alone = round(PAIRS_ALONE * recipe.steps)
    progress = Progress("pretraining")
    progress.start(recipe.steps)
    for step, (rows, follows) in enumerate(_batches(text, recipe, generator)):
        loss = _loss(model, text, rows, follows, generator, step >= alone)
        loss = loss + _contrast(model, text, recipe.batch, generator)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        progress.update(1, loss.item)
    progress.say(f"loss {loss.item():.3f} after {recipe.steps} steps")
    return model.encoder, arch


class MaskedLanguageModel(nn.Module):
    """The encoder with a head for masked words and one for next sentences.

    The first is a linear map, GELU and norm, then a decoder that shares the word embeddings and
    has a bias; the second is linear, on the pooler's output.
    """

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.encoder = whole_encoder(arch, Dropout(embedding=0.0, sublayer=0.0, attention=0.0))
        self.dense = nn.Linear(arch.hidden, arch.hidden)
        self.norm = nn.LayerNorm(arch.hidden, eps=arch.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(arch.vocab_size))
        self.follows = nn.Linear(arch.hidden, 1)
        initialise(self)

    def forward(self, batch: Packed, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Return word logits [M, words] at tokens `masked` [M], and next-sentence logits [B]."""
        states = self.encoder(batch)
        hidden = states.index_select(0, masked)
        hidden = self.norm(F.gelu(self.dense(hidden)))
        words = cast(Embeddings, self.encoder.embeddings).word.weight
        pooled = cast(nn.Module, self.encoder.pooler)(states.index_select(0, batch.first))
        return F.linear(hidden, words, self.bias), self.follows(pooled).squeeze(-1)


@torch.no_grad()
def mimetic(encoder: Stack, generator: torch.Generator | None = None) -> None:
    """Draw attention weights with W_q = W_k and W_o W_v = I, both orthogonal, in every layer.

    As in Trockman and Kolter (2023, mimetic initialisation; there the products are the identity
    plus noise): each token attends to the tokens most similar to it, such as the same word in the
    other sentence, and copies their state, as after many thousands of steps of training.
    """
    for layer in encoder.layers.values():
        attention = cast(Layer, layer).attention
        size = attention.output.in_features
        match, copy = (
            torch.nn.init.orthogonal_(torch.empty(size, size), generator=generator)
            for _ in range(2)
        )
        attention.qkv.weight.copy_(torch.cat([match, match, copy]))
        attention.output.weight.copy_(copy.T)
    embeddings = cast(Embeddings, encoder.embeddings)
    for name, factor in WORDS_FIRST.items():
        embeddings.get_submodule(name).get_parameter("weight").mul_(factor)


def _loss(
    model: MaskedLanguageModel,
    text: Text,
    rows: np.ndarray,
    follows: Tensor,
    generator: torch.Generator,
    words: bool,
) -> Tensor:
    """Return the next-sentence loss of `rows`, with the masked-word loss added if `words`."""
    batch = text.sequences.pack(rows)
    original = batch.tokens
    places = torch.zeros(0, dtype=torch.int64)
    if words:
        batch.tokens, places = mask_tokens(original, text.words, text.mask, generator)
    logits, next_logits = model(batch, places)
    pairs = ~follows.isnan()
    found = F.binary_cross_entropy_with_logits(next_logits[pairs], follows[pairs], reduction="sum")
    loss = found / pairs.sum().clamp(min=1)
    return loss + F.cross_entropy(logits, original[places]) if words else loss


def _contrast(
    model: MaskedLanguageModel, text: Text, count: int, generator: torch.Generator
) -> Tensor:
    """Return how well each of `count` pairs' sentences find each other among the others'.

    InfoNCE over cosines in both directions, of the tokens' mean and of the pooler's output (Gao et
    al., 2021, section 4; there with labelled pairs too). Sentences that say the same are not held
    against each other.
    """
    drawn = torch.randint(len(text.pairs), (count,), generator=generator).numpy()
    batch = text.sequences.pack(text.alone[drawn].T.reshape(-1))
    states = model.encoder(batch)
    pooler = cast(nn.Module, model.encoder.pooler)
    apart = torch.from_numpy(text.apart[drawn])
    same = (apart[:, None] == apart) & ~torch.eye(count, dtype=torch.bool)
    own = torch.arange(count)
    loss = states.new_zeros(())
    for pooled in (MeanPooling()(states, batch, pooler), ClsPooling()(states, batch, pooler)):
        first, second = F.normalize(pooled, dim=1).split(count)
        cosines = (first @ second.T / TEMPERATURE).masked_fill(same, -torch.inf)
        loss = loss + (F.cross_entropy(cosines, own) + F.cross_entropy(cosines.T, own)) / 4
    return loss


def _batches(
    text: Text, recipe: Recipe, generator: torch.Generator
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Yield each step's rows [B], and for each 1 if as written, 0 if mismatched, NaN if no pair."""
    stranger = dict(zip(text.pairs.tolist(), text.strangers.tolist(), strict=True))
    waiting: list[int] = []
    for _ in range(recipe.steps):
        if len(waiting) < recipe.batch:
            waiting += torch.randperm(text.texts, generator=generator).tolist()
        rows, waiting = waiting[: recipe.batch], waiting[recipe.batch :]
        keep = (torch.rand(len(rows), generator=generator) < 0.5).tolist()
        found = [row if k else stranger.get(row, row) for row, k in zip(rows, keep, strict=True)]
        follows = [k if row in stranger else np.nan for row, k in zip(rows, keep, strict=True)]
        yield np.array(found), torch.tensor(follows, dtype=torch.float32)


def mask_tokens(
    tokens: Tensor, words: int, mask: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return `tokens`, int64 [T], with some of them masked, and the places [M] to predict.

    15 % of the tokens that are not special (ids above `mask`, the last special one) are chosen, at
    least one; of these 80 % become the mask, 10 % a random word of the vocabulary's `words`, and
    10 % stay (Devlin et al., 2019, section 3.1).
    """
    draws = torch.rand(2, len(tokens), generator=generator)
    draws[0, tokens <= mask] = 2.0
    chosen = draws[0] < MASKED
    chosen[draws[0].argmin()] = True
    hidden = tokens.clone()
    hidden[chosen & (draws[1] < 0.8)] = mask
    random = torch.randint(mask + 1, words, tokens.shape, generator=generator)
    swapped = chosen & (draws[1] >= 0.9)
    hidden[swapped] = random[swapped]
    return hidden, chosen.nonzero().squeeze(-1)


def _read(tokenizer: Path, items: list[Item]) -> Text:
    loaded = Tokenizer.from_file(str(tokenizer))
    special = special_tokens(tokenizer, two_types=True)
    firsts = [item if isinstance(item, str) else item[0] for item in items]
    seconds = ["" if isinstance(item, str) else item[1] for item in items]
    one, two = (
        [np.array(e.ids, np.int32) for e in loaded.encode_batch(texts, add_special_tokens=False)]
        for texts in (firsts, seconds)
    )
    pairs, partners = _strangers(seconds)
    framed = [frame(a, b if len(b) else None, special, 512) for a, b in zip(one, two, strict=True)]
    framed += [frame(one[a], two[b], special, 512) for a, b in zip(pairs, partners, strict=True)]
    alone = len(framed) + np.arange(2 * len(pairs)).reshape(-1, 2)
    framed += [frame(side[p], None, special, 512) for p in pairs for side in (one, two)]
    themes: dict[str, int] = {}
    apart = [themes.setdefault(told_apart(seconds[pair]), len(themes)) for pair in pairs]
    return Text(
        Sequences(framed, torch.device("cpu")),
        len(items),
        np.array(pairs),
        np.arange(len(pairs)) + len(items),
        alone,
        np.array(apart),
        loaded.get_vocab_size(),
        loaded.token_to_id("[MASK]"),
    )


def _strangers(seconds: list[str]) -> tuple[list[int], list[int]]:
    """Return the pairs among the items, and for each another pair: a question for a question."""
    alike: dict[str, list[int]] = {}
    for item, second in enumerate(seconds):
        if second:
            alike.setdefault(second[-1], []).append(item)
    pairs, partners = [], []
    for group in alike.values():
        pairs += group
        partners += group[1:] + group[:1]
    return pairs, partners
