"""The built-in backbone: a small BERT, pretrained on the corpus as BERT was."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from minbert.base.files import whole, write_json
from minbert.base.progress import Progress
from minbert.data.corpus.pretraining import pretraining_text, told_apart
from minbert.model.encoder import Pooler
from minbert.model.mlm import MaskedLanguageModel, mimetic
from minbert.model.pooling.cls import ClsPooling
from minbert.model.pooling.mean import MeanPooling
from minbert.model.weights import save_weights
from minbert.spec.pretraining import Pretraining
from minbert.spec.stage import Dropout, Optimiser
from minbert.store.job import Job
from minbert.train.device import choose_device
from minbert.train.examples import Sequences, frame, special_tokens
from minbert.train.optimiser import AdamW
from minbert.train.schedules.linear import linear

ITEMS = 24_000
"""Texts drawn for pretraining; later passes see them again, masked differently."""

PAIRS_ALONE = 0.3
"""The share of steps, at the start, without masked words: guessing words from the first step on
would undo the matching of words that attention starts with."""

TEMPERATURE = 0.05
"""What cosines are divided by in the contrast of sentences (Gao et al., 2021)."""

MASKED = 0.15
"""The share of tokens that are predicted."""


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


def make(job: Job) -> None:
    settings = Pretraining.model_validate(job.spec["pretraining"])
    tokenizer = job.need("tokenizer")
    pretrain(settings, job.spec["seed"], tokenizer, job.out, job.device, job.threads)


def pretrain(
    settings: Pretraining, seed: int, tokenizer: Path, out: Path, device: str, threads: int
) -> None:
    """Pretrain on the corpus's unlabelled text; write a backbone folder to `out`.

    Masked language modelling and next-sentence prediction (Devlin et al., 2019, section 3.1): half
    of the pairs get a second sentence from elsewhere. Beside them, sentences encoded alone are
    contrasted, so that embeddings of one sentence mean something from the start. Attention starts
    as `mimetic` draws it. There is no dropout: the model is small and sees most texts only a few
    times.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    place = choose_device(device)
    text = _read(tokenizer, seed, place)
    architecture = settings.architecture(text.words)
    model = MaskedLanguageModel(architecture, Dropout(embedding=0.0, sublayer=0.0, attention=0.0))
    mimetic(model.encoder)
    model.to(place)
    chosen = Optimiser(lr=settings.lr, weight_decay=0.01, betas=(0.9, 0.98), eps=1e-8)
    optimiser = AdamW(model.parameters(), chosen, linear(settings.steps, 0.06))
    generator = torch.Generator().manual_seed(seed)
    alone = round(PAIRS_ALONE * settings.steps)
    progress = Progress("pretraining")
    progress.start(settings.steps)
    for step, (rows, follows) in enumerate(_batches(text, settings, generator)):
        loss = _loss(model, text, rows, follows.to(place), generator, step >= alone)
        loss = loss + _contrast(model, text, settings.batch, generator)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        progress.update(1, loss.item())
    progress.close()
    progress.say(f"loss {loss.item():.3f} after {settings.steps} steps")
    save_weights(out / "model.safetensors", model.encoder.state_dict())
    write_json(out / "config.json", architecture.model_dump())
    with whole(out / "tokenizer.json") as temporary:
        shutil.copyfile(tokenizer, temporary)


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
    places = torch.zeros(0, dtype=torch.int64, device=original.device)
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
    pooler = cast(Pooler, model.encoder.pooler)
    apart = torch.from_numpy(text.apart[drawn]).to(states.device)
    same = (apart[:, None] == apart) & ~torch.eye(count, dtype=torch.bool, device=states.device)
    own = torch.arange(count, device=states.device)
    loss = states.new_zeros(())
    for pooled in (MeanPooling()(states, batch, pooler), ClsPooling()(states, batch, pooler)):
        first, second = F.normalize(pooled, dim=1).split(count)
        cosines = (first @ second.T / TEMPERATURE).masked_fill(same, -torch.inf)
        loss = loss + (F.cross_entropy(cosines, own) + F.cross_entropy(cosines.T, own)) / 4
    return loss


def _batches(
    text: Text, settings: Pretraining, generator: torch.Generator
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Yield each step's rows [B], and for each 1 if as written, 0 if mismatched, NaN if no pair."""
    stranger = dict(zip(text.pairs.tolist(), text.strangers.tolist(), strict=True))
    waiting: list[int] = []
    for _ in range(settings.steps):
        if len(waiting) < settings.batch:
            waiting += torch.randperm(text.texts, generator=generator).tolist()
        rows, waiting = waiting[: settings.batch], waiting[settings.batch :]
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
    draws = torch.rand(2, len(tokens), generator=generator).to(tokens.device)
    draws[0, tokens <= mask] = 2.0
    chosen = draws[0] < MASKED
    chosen[draws[0].argmin()] = True
    hidden = tokens.clone()
    hidden[chosen & (draws[1] < 0.8)] = mask
    random = torch.randint(mask + 1, words, tokens.shape, generator=generator).to(tokens.device)
    swapped = chosen & (draws[1] >= 0.9)
    hidden[swapped] = random[swapped]
    return hidden, chosen.nonzero().squeeze(-1)


def _read(tokenizer: Path, seed: int, device: torch.device) -> Text:
    loaded = Tokenizer.from_file(str(tokenizer))
    special = special_tokens(tokenizer, two_types=True)
    items = pretraining_text(seed, ITEMS)
    firsts = [item if isinstance(item, str) else item[0] for item in items]
    seconds = ["" if isinstance(item, str) else item[1] for item in items]
    one, two = (
        [np.array(e.ids, np.int32) for e in loaded.encode_batch(texts, add_special_tokens=False)]
        for texts in (firsts, seconds)
    )
    pairs, partners = _strangers(seconds)
    framed = [frame(a, b, special, 512) for a, b in zip(one, two, strict=True)]
    framed += [frame(one[a], two[b], special, 512) for a, b in zip(pairs, partners, strict=True)]
    alone = len(framed) + np.arange(2 * len(pairs)).reshape(-1, 2)
    framed += [frame(side[p], None, special, 512) for p in pairs for side in (one, two)]
    themes: dict[str, int] = {}
    apart = [themes.setdefault(told_apart(seconds[pair]), len(themes)) for pair in pairs]
    return Text(
        Sequences([row for row, _ in framed], [n for _, n in framed], device),
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
