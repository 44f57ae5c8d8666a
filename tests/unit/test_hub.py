"""Backbones from the hub: what is asked for, and what is said when it cannot be had."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from minbert.base.errors import UserError
from minbert.train.backbone import download, make

REVISION = "0123456789abcdef0123456789abcdef01234567"


def test_pinned_safe_files_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def snapshot(name: str, **words: Any) -> str:
        asked.update(words, name=name)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert download("owner/name", REVISION) == tmp_path
    assert (asked["name"], asked["revision"]) == ("owner/name", REVISION)

    def wanted(file: str) -> bool:
        return any(fnmatch.fnmatch(file, pattern) for pattern in asked["allow_patterns"])

    files = ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json")
    files += ("added_tokens.json", "special_tokens_map.json", "model-00001-of-00002.safetensors")
    assert all(map(wanted, files))
    assert not any(map(wanted, ("pytorch_model.bin", "model.pkl", "tf_model.h5")))


def test_a_job_takes_the_planned_revision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[Any, ...]] = []
    module = "minbert.train.backbone."
    monkeypatch.setattr(f"{module}download", lambda *of: asked.append(of) or tmp_path)
    monkeypatch.setattr(f"{module}convert_hugging_face", lambda *of: asked.append(of))
    spec = {"hub": "owner/name", "revision": REVISION}
    make(SimpleNamespace(spec=spec, out=tmp_path / "out"))  # type: ignore[arg-type]
    assert asked == [("owner/name", REVISION), (tmp_path, tmp_path / "out")]


def test_both_ways_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(name: str, **words: Any) -> str:
        raise LocalEntryNotFoundError("no connection\nmore")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(UserError, match=r"'owner/name' at 0123456789ab .*\(no connection\).*to th"):
        download("owner/name", REVISION)
