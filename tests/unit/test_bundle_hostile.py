"""Hostile and broken bundles: each is refused with its reason, and nothing of it is taken in."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import trained_root
from forgeries import HOSTILE, Forgery
from own_tasks import using
from trained_root import REPOSITORY, run_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.plan.plan import Plan
from minbert.publish.bundle import bundle
from minbert.publish.unbundle import unbundle
from minbert.spec.task import TASKS
from minbert.store.node import key_of
from minbert.store.plans import brought, description_path, write_description


@pytest.fixture(autouse=True)
def _own_tasks() -> Iterator[None]:
    """Keep the tasks of this process, which those of a bundle replace."""
    with using(*TASKS.own):
        yield


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return trained_root.make_root(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def good(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("good") / "good.zip"
    bundle(plan.root, out, base=REPOSITORY)
    return out


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_bundle_is_refused(how: str, good: Path, plan: Plan, tmp_path: Path) -> None:
    change, message = HOSTILE[how]
    forged = Forgery(good, plan)
    change(forged)
    forged.written(tmp_path / "evil.zip")
    refuse(tmp_path / "evil.zip", tmp_path / "results", message)


def refuse(path: Path, root: Path, message: str) -> None:
    """Check that a bundle is refused with a message, and leaves nothing."""
    root.mkdir()
    with pytest.raises(UserError, match=message) as caught:
        unbundle(path, root)
    assert str(path) in str(caught.value)
    assert "Nothing was imported" in str(caught.value)
    left = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    assert left == {"store", "work", "work/lock"}


def test_an_unchanged_forgery_is_taken_in(good: Path, plan: Plan, tmp_path: Path) -> None:
    """So that the others are refused for their changes alone; `lean` is of earlier bundles."""
    forged = Forgery(good, plan)
    forged.about["lean"] = True
    forged.about["sources"] = {f"backbone-{'0' * 16}": ["of none of its nodes"]}
    forged.written(tmp_path / "same.zip")
    assert unbundle(tmp_path / "same.zip", tmp_path).new > 5
    assert not brought(tmp_path)


@pytest.mark.parametrize("left", [0.1, 0.5, 0.99])
def test_a_bundle_that_is_cut_off_is_refused(left: float, good: Path, tmp_path: Path) -> None:
    content = good.read_bytes()
    (tmp_path / "cut.zip").write_bytes(content[: int(len(content) * left)])
    refuse(tmp_path / "cut.zip", tmp_path / "results", "is damaged, truncated or not a zip")


@pytest.mark.parametrize("damage", ["the place of the files", "a name"])
def test_a_damaged_list_of_the_zip_is_refused(damage: str, good: Path, tmp_path: Path) -> None:
    raw = bytearray(good.read_bytes())
    if damage == "a name":
        at = raw.rindex(b"README.md")
        raw[at], raw[at - 46 + 9] = 0xFF, 8  # which is not UTF-8, as the flag says
    else:
        start = raw.rindex(b"PK\x05\x06") + 16
        struct.pack_into("<I", raw, start, struct.unpack_from("<I", raw, start)[0] + len(raw))
    (tmp_path / "evil.zip").write_bytes(raw)
    refuse(tmp_path / "evil.zip", tmp_path / "results", "is damaged, truncated or not a zip")


def test_a_file_that_unpacks_to_more_than_it_says_is_refused(
    good: Path, plan: Plan, tmp_path: Path
) -> None:
    """The sizes in the zip's directory and in the list agree, and the data hold more."""
    forged = Forgery(good, plan)
    forged.files["README.md"] = b"x" * 100_000
    listed = {"bytes": 10, "sha256": hashlib.sha256(b"x" * 10).hexdigest()}
    forged.about["files"]["README.md"], forged.listed = listed, False
    forged.written(tmp_path / "evil.zip")
    patch(tmp_path / "evil.zip", "<I", 24, 10)
    refuse(tmp_path / "evil.zip", tmp_path / "results", "is damaged, truncated or not a zip.*CRC")


def test_an_encrypted_file_is_refused(good: Path, plan: Plan, tmp_path: Path) -> None:
    Forgery(good, plan).written(tmp_path / "evil.zip")
    patch(tmp_path / "evil.zip", "<H", 8, 1)
    refuse(tmp_path / "evil.zip", tmp_path / "results", r"README\.md: is encrypted")


def patch(path: Path, form: str, offset: int, value: int) -> None:
    """Change a field of what the zip's central directory says of the page for people."""
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"README.md") - 46
    assert raw[at : at + 4] == b"PK\x01\x02"
    struct.pack_into(form, raw, at + offset, value)
    path.write_bytes(raw)


def test_flipped_bits_are_refused_or_change_nothing(good: Path, tmp_path: Path) -> None:
    content = good.read_bytes()
    random = np.random.default_rng(0)
    for number, at in enumerate(random.integers(0, len(content), 12)):
        flipped = bytearray(content)
        flipped[at] ^= 0xFF
        (tmp_path / "flipped.zip").write_bytes(flipped)
        root = tmp_path / f"results{number}"
        root.mkdir()
        try:
            assert unbundle(tmp_path / "flipped.zip", root).new > 5
        except UserError as error:
            assert "Nothing was imported" in str(error)
            assert not any((root / "store").iterdir())


def test_a_description_names_its_maker_or_is_written_again(
    good: Path, plan: Plan, tmp_path: Path
) -> None:
    """Who makes a node is not in its key, so a description is replaced if it says another."""
    key = run_folder(plan, "three").parent.name
    page = read_json(description_path(plan.root, "train", key))
    write_description(tmp_path, page | {"maker": "minbert.base.files"})
    write_description(tmp_path, page)
    write_description(tmp_path, {name: page[name] for name in page if name != "parts"})
    found = read_json(description_path(tmp_path, "train", key))
    assert found["maker"] == page["maker"] and key_of(found) == key
