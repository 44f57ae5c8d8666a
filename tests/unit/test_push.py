"""`minbert export --push`: a folder on a hub, whole, private, and with the token that was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import Hub, fake_hub

from minbert.commands.cli import main
from minbert.plan.plan import Plan

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with fake_hub() as running:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", "hf_mine")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield running


def words(plan: Plan, folder: Path, repository: str) -> list[str]:
    return ["export", "frozen", str(folder), "--results", str(plan.root), "--push", repository]


def test_an_exported_folder_is_pushed(
    hub: Hub, trained_plan: Plan, tmp_path: Path, capsys: Printed
) -> None:
    folder = tmp_path / "frozen"
    main(words(trained_plan, folder, "me/frozen"))
    sent = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert len(sent) == 7 and hub.files == sent
    assert hub.made == [{"name": "frozen", "organization": "me", "private": True}]
    assert hub.tokens == {"Bearer hf_mine"}
    assert hub.commits == ["Model exported by minbert: frozen"]
    assert capsys.readouterr().out.splitlines() == [
        f"{folder}: sst, para",
        f"{hub.url}/me/frozen",
    ]


@pytest.mark.parametrize(
    ("refused", "status", "told"),
    [
        ("/repos/create", 401, "401 Client Error"),
        ("/preupload/", 403, "403 Forbidden"),
        ("/large", 400, ".safetensors' to the Hub.; "),
    ],
)
def test_a_hub_that_refuses_leaves_the_folder_and_says_how_to_go_on(
    refused: str,
    status: int,
    told: str,
    hub: Hub,
    trained_plan: Plan,
    tmp_path: Path,
    capsys: Printed,
) -> None:
    hub.refuses = {refused: status}
    folder = tmp_path / "my frozen"
    with pytest.raises(SystemExit):
        main(words(trained_plan, folder, "me/frozen"))
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{folder} was not pushed to 'me/frozen'" in error and told in error
    assert f"`hf upload me/frozen '{folder}' --private`" in error and hub.files == {}
    assert (folder / "README.md").is_file()


def test_a_repository_that_cannot_be_is_refused_before_the_export(
    trained_plan: Plan, tmp_path: Path, capsys: Printed
) -> None:
    with pytest.raises(SystemExit):
        main(words(trained_plan, tmp_path / "out", "me/my/model"))
    assert "--push 'me/my/model': Repo id must be in the form" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
