"""Pretraining: masked words and next sentences."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import minbert.train.pretrain
from minbert.base.progress import Progress
from minbert.data.corpus.pretraining import pretraining_text, told_apart
from minbert.data.vocabulary import train_vocabulary
from minbert.model.encoder import whole_encoder
from minbert.spec.architecture import read_architecture
from minbert.spec.pretraining import Pretraining
from minbert.spec.stage import Dropout
from minbert.train.examples import Sequences
from minbert.train.pretrain import (
    TEMPERATURE,
    Text,
    _batches,
    _contrast,
    _strangers,
    mask_tokens,
    pretrain,
)

WORDS, MASK = 60, 4
TINY = Pretraining(
    steps=30, vocabulary=400, layers=1, hidden=32, heads=2, intermediate=64, batch=16, lr=1e-2
)


def tokens(count: int) -> Tensor:
    """Return random tokens, about one in six of them special."""
    return torch.randint(0, 30, (count,), generator=torch.Generator().manual_seed(1))


def masked(given: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    return mask_tokens(given, WORDS, MASK, torch.Generator().manual_seed(seed))


def test_shares_of_masks_random_words_and_kept_words() -> None:
    given = tokens(60_000)
    hidden, places = masked(given)
    ordinary = int((given > MASK).sum())
    assert len(places) / ordinary == pytest.approx(0.15, abs=0.005)
    after, before = hidden[places], given[places]
    assert (after == MASK).float().mean().item() == pytest.approx(0.8, abs=0.02)
    # A random word is the word itself once in 55 draws.
    changed = (after != MASK) & (after != before)
    assert changed.float().mean().item() == pytest.approx(0.1 * 54 / 55, abs=0.015)
    drawn = after[changed]
    assert int(drawn.min()) == MASK + 1 and int(drawn.max()) == WORDS - 1


def test_special_tokens_are_never_chosen_and_others_stay() -> None:
    given = tokens(5_000)
    hidden, places = masked(given)
    assert int(given[places].min()) > MASK
    assert places.tolist() == sorted(set(places.tolist()))
    others = torch.ones(len(given), dtype=torch.bool)
    others[places] = False
    assert torch.equal(hidden[others], given[others])


def test_at_least_one_token_is_chosen() -> None:
    given = torch.tensor([2, 40, 3])
    for seed in range(30):
        _, places = masked(given, seed)
        assert places.tolist() == [1]


def test_masks_differ_from_draw_to_draw_and_the_input_is_left_alone() -> None:
    given = tokens(500)
    kept = given.clone()
    generator = torch.Generator().manual_seed(0)
    drawn = [mask_tokens(given, WORDS, MASK, generator)[1].tolist() for _ in range(3)]
    assert len({tuple(places) for places in drawn}) == 3
    assert torch.equal(given, kept)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = pretraining_text(0, 300)
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"
    texts = (text for item in items for text in ([item] if isinstance(item, str) else item))
    train_vocabulary(texts, TINY.vocabulary, path)
    return path


@pytest.fixture
def pretrained(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Path, list[float]]]:
    """Return a function that pretrains on 300 texts: its folder and the loss of each step."""
    monkeypatch.setattr("minbert.train.pretrain.ITEMS", 300)

    def make(name: str, seed: int) -> tuple[Path, list[float]]:
        losses: list[float] = []
        monkeypatch.setattr(Progress, "update", lambda _, epoch, loss: losses.append(loss))
        pretrain(TINY, seed, tokenizer, tmp_path / name, "cpu", 1)
        return tmp_path / name, losses

    return make


def test_thirty_steps_lower_the_loss(
    pretrained: Callable[..., tuple[Path, list[float]]],
) -> None:
    folder, losses = pretrained("a", 0)
    assert len(losses) == 30
    contrast = 2 * math.log(TINY.batch)  # of means and of the pooler's output, each by half twice
    assert losses[0] > 0.5 and losses[0] < 0.9 + contrast, "pairs alone: log 2, and the contrast"
    assert losses[9] > 5 + 0.5, "with words: about log 400"
    assert sum(losses[-5:]) / 5 < losses[9] - 0.2
    again, _ = pretrained("b", 0)
    other, _ = pretrained("c", 1)
    weights = [(f / "model.safetensors").read_bytes() for f in (folder, again, other)]
    assert weights[0] == weights[1] != weights[2]


def test_a_backbone_folder_is_left(
    pretrained: Callable[..., tuple[Path, list[float]]], tokenizer: Path
) -> None:
    folder, _ = pretrained("a", 0)
    architecture = read_architecture(folder / "config.json")
    assert (architecture.layers, architecture.hidden, architecture.vocab_size) == (1, 32, 400)
    whole_encoder(architecture, Dropout()).load_state_dict(load_file(folder / "model.safetensors"))
    assert (folder / "tokenizer.json").read_bytes() == tokenizer.read_bytes()
    assert len(list(folder.iterdir())) == 3


def test_strangers_are_other_pairs_of_the_same_form() -> None:
    seconds = ["who ?", "", "he ran .", "why ?", "she sat .", "it fell ."]
    pairs, partners = _strangers(seconds)
    assert sorted(pairs) == sorted(partners) == [0, 2, 3, 4, 5]
    assert all(a != b for a, b in zip(pairs, partners, strict=True))
    assert all(seconds[a][-1] == seconds[b][-1] for a, b in zip(pairs, partners, strict=True))


def contrasting(vectors: Tensor, apart: list[int]) -> float:
    """Return the contrast of pairs whose sentences have these embeddings [P, 2, H]."""
    pairs = len(vectors)
    alone = np.arange(2 * pairs).reshape(-1, 2)

    class Encoder(torch.nn.Module):
        """Gives each row, of one token, its vector."""

        def forward(self, batch: Any) -> Tensor:
            return vectors.reshape(2 * pairs, -1)[batch.tokens]

        def pooler(self, hidden: Tensor) -> Tensor:
            return hidden

    tokens = [np.array([row], np.int32) for row in range(2 * pairs)]
    text = Text(
        Sequences(tokens, [1] * len(tokens), torch.device("cpu")),
        *(0, np.arange(pairs), np.zeros(0), alone, np.array(apart), 400, 4),
    )
    model = torch.nn.Module()
    model.encoder = Encoder()
    # As many draws as there are pairs, each pair once.
    every = torch.Generator()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randint", lambda *_, **__: torch.arange(pairs))
        return _contrast(model, text, pairs, every).item()  # type: ignore[arg-type]


def test_the_contrast_is_infonce_in_both_directions() -> None:
    """Of n orthogonal pairs: log(1 + (n - 1) exp(-1 / temperature)); of equal ones: log n."""
    apart = list(range(4))
    vectors = torch.eye(4)[:, None].expand(4, 2, 4)
    assert contrasting(vectors, apart) == pytest.approx(math.log(1 + 3 * math.exp(-20)), abs=1e-6)
    assert contrasting(torch.ones(4, 2, 4), apart) == pytest.approx(math.log(4), abs=1e-5)
    # Sentences that say the same are not held against each other.
    assert contrasting(torch.ones(4, 2, 4), [7, 7, 1, 1]) == pytest.approx(math.log(3), abs=1e-5)
    draw = torch.randn(4, 2, 8, generator=torch.Generator().manual_seed(0))
    cosines = torch.nn.functional.normalize(draw, dim=2)
    scores = (cosines[:, 0] @ cosines[:, 1].T / TEMPERATURE).numpy()
    right = [
        -row[i] + np.log(np.exp(row).sum()) for side in (scores, scores.T)
        for i, row in enumerate(side)
    ]  # fmt: skip
    assert contrasting(draw, apart) == pytest.approx(np.mean(right), rel=1e-5)


def test_reactions_are_told_apart_by_how_much_one_liked_it() -> None:
    assert told_apart("we loved it .") == told_apart("most people loved it .") == "loved"
    assert told_apart("i hated it .") != told_apart("i loved it .")
    assert told_apart("a cook sells it .") == "a cook sells it ."


def test_half_of_the_pairs_are_swapped_and_said_so() -> None:
    pairs = np.arange(1, 100)
    none = np.zeros(0)
    text = Text(None, 100, pairs, pairs + 100, none, none, 400, 4)  # type: ignore[arg-type]
    settings = TINY.model_copy(update={"steps": 50, "batch": 20})
    seen = list(_batches(text, settings, torch.Generator().manual_seed(0)))
    rows = np.concatenate([rows for rows, _ in seen])
    follows = torch.cat([follows for _, follows in seen]).numpy()
    assert (np.isnan(follows) == (rows == 0)).all()
    assert ((follows == 0) == (rows > 100)).all()
    assert 0.4 < np.nanmean(follows) < 0.6
    assert sorted(rows[:100] % 100) == list(range(100)), "every text once before any comes again"


def test_the_default_settings_learn_which_sentences_belong_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Pretraining()
    items = pretraining_text(0, 4000)
    texts = [text for item in items for text in ([item] if isinstance(item, str) else item)]
    train_vocabulary(texts, settings.vocabulary, tmp_path / "vocabulary")
    losses: list[float] = []
    ordinary = minbert.train.pretrain._contrast

    class Enough(Exception):
        """70 steps are made."""

    def noted(*given: Any) -> Tensor:
        loss = ordinary(*given)
        losses.append(loss.item())
        if len(losses) == 70:
            raise Enough
        return loss

    monkeypatch.setattr(minbert.train.pretrain, "_contrast", noted)
    with pytest.raises(Enough):
        pretrain(settings, 0, tmp_path / "vocabulary", tmp_path, "cpu", 1)
    assert np.mean(losses[:10]) > 2.0  # log 32 is 3.5
    assert np.mean(losses[-10:]) < 1.2
