"""The built-in backbone: a small BERT, pretrained by masked language modelling on the corpus."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from minbert.common.files import whole, write_json
from minbert.common.progress import Progress
from minbert.data.corpus import pretraining_text
from minbert.grid.architecture import Architecture
from minbert.grid.config import Pretraining
from minbert.grid.spec import Dropout
from minbert.model.mlm import MaskedLanguageModel
from minbert.model.weights import save_weights
from minbert.train.device import choose_device
from minbert.train.examples import Sequences, SpecialTokens, frame
from minbert.train.schedules.linear import linear

ITEMS = 24_000
"""Texts drawn for pretraining; later passes see them again with other masks."""

MASKED = 0.15
"""The share of tokens that are predicted (Devlin et al., 2019, section 3.1)."""


def pretrain(
    settings: Pretraining, seed: int, tokenizer: Path, out: Path, device: str, threads: int
) -> None:
    """Pretrain on the corpus's unlabelled text; write a backbone folder to `out`.

    Pairs are encoded as one sequence with two token types, as the tasks' cross encoding does.
    Dropout is left out: the model is small and sees most texts few times.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    place = choose_device(device)
    sequences, words, mask = _read(tokenizer, seed, place)
    architecture = Architecture(
        vocab_size=words,
        hidden=settings.hidden,
        layers=settings.layers,
        heads=settings.heads,
        intermediate=settings.intermediate,
        positions=512,
    )
    model = MaskedLanguageModel(architecture, Dropout(hidden=0.0, attention=0.0)).to(place)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, weight_decay=0.01, betas=(0.9, 0.98), fused=True
    )
    schedule = linear(optimiser, settings.steps, 0.06)
    generator = torch.Generator().manual_seed(seed)
    progress = Progress("pretraining")
    progress.start(settings.steps)
    waiting: list[int] = []
    for _ in range(settings.steps):
        if len(waiting) < settings.batch:
            waiting += torch.randperm(len(sequences), generator=generator).tolist()
        rows, waiting = waiting[: settings.batch], waiting[settings.batch :]
        batch = sequences.pack(np.array(rows))
        tokens, places = mask_tokens(batch.tokens, words, mask, generator)
        labels = batch.tokens[places]
        batch.tokens = tokens
        loss = F.cross_entropy(model(batch, places), labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        progress.update(1, loss.item())
    progress.close()
    progress.say(f"loss {loss.item():.3f} after {settings.steps} steps")
    save_weights(out / "model.safetensors", model.encoder.state_dict())
    write_json(out / "config.json", architecture.model_dump())
    with whole(out / "tokenizer.json") as temporary:
        shutil.copyfile(tokenizer, temporary)


def mask_tokens(
    tokens: Tensor, words: int, mask: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the tokens with some hidden, and the places [M] to predict.

    15 % of the tokens that are not special (ids above `mask`, the last special one) are chosen;
    of these 80 % become the mask, 10 % a random word, 10 % stay (Devlin et al., 2019, section
    3.1). At least one is chosen. `tokens` is int64 [T]; `words` is the size of the vocabulary.
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


def _read(tokenizer: Path, seed: int, device: torch.device) -> tuple[Sequences, int, int]:
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokenizer))
    special = SpecialTokens(loaded.token_to_id("[CLS]"), loaded.token_to_id("[SEP]"))
    items = pretraining_text(seed, ITEMS)
    firsts = [item if isinstance(item, str) else item[0] for item in items]
    seconds = ["" if isinstance(item, str) else item[1] for item in items]
    one, two = (
        [np.array(e.ids, np.int32) for e in loaded.encode_batch(texts, add_special_tokens=False)]
        for texts in (firsts, seconds)
    )
    framed = [frame(a, b, special, 512) for a, b in zip(one, two, strict=True)]
    sequences = Sequences([row for row, _ in framed], [n for _, n in framed], device)
    return sequences, loaded.get_vocab_size(), loaded.token_to_id("[MASK]")
