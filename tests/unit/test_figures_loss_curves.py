"""Figure 3 of the hybrid-bert paper: multitask training loss of several variants."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from minbert.base.errors import UserError
from minbert.figures import style
from minbert.figures.curves import running_mean
from minbert.figures.inputs import Inputs
from minbert.figures.loss_curves import Spec
from minbert.figures.make import draw_kind

VARIANTS = {"one": "1-bert", "three": "3-bert $k$"}


def spec(**more: Any) -> dict[str, Any]:
    return {"title": "Multitask loss", "variants": VARIANTS, "stamp": "commit 0123456"} | more


def history(
    path: Path, losses: list[float], epochs: int = 2, every: int = 1, dev: bool = True
) -> Path:
    """Write a history whose training loss is `losses`, one every `every` steps."""
    total = len(losses) * every
    length = total // epochs
    lines: list[dict[str, Any]] = []
    for i, loss in enumerate(losses):
        step = (i + 1) * every
        about = {"step": step, "epoch": (step - 1) // length + 1, "split": "train"}
        lines.append(about | {"task": "overall", "metric": "loss", "value": loss})
        lines.append(about | {"task": "sst", "metric": "loss", "value": 99.0})
    for epoch in range(1, epochs + 1) if dev else ():
        about = {"step": epoch * length, "epoch": epoch, "split": "dev"}
        lines.append(about | {"task": "overall", "metric": "loss", "value": 77.0})
    pq.write_table(pa.Table.from_pylist(lines), path)
    return path


def labelled(axes: Axes) -> dict[str, Line2D]:
    """Return the lines of the legend, by label without the mean in brackets."""
    shown = [line for line in axes.lines if line.get_label()[0] != "_"]
    return {str(line.get_label()).partition(" (")[0]: line for line in shown}


def test_lines_are_means_over_seeds_by_epoch_on_a_log_axis(tmp_path: Path) -> None:
    histories = {
        "three": {0: history(tmp_path / "c", [8, 4, 2, 1])},
        "one": {
            0: history(tmp_path / "a", [4, 3, 2, 1], every=10),
            1: history(tmp_path / "b", [2, 1, 1, 0.5], every=10),
        },
    }
    figure, notes = Spec(**spec(smooth=0)).plot(Inputs(histories))
    (axes,) = figure.axes
    lines = labelled(axes)
    assert list(lines) == ["1-bert", "3-bert $k$"]
    np.testing.assert_allclose(lines["1-bert"].get_xdata(), [0.5, 1, 1.5, 2])
    np.testing.assert_allclose(lines["1-bert"].get_ydata(), [3, 2, 1.5, 0.75])
    np.testing.assert_allclose(lines["3-bert $k$"].get_ydata(), [8, 4, 2, 1])
    assert (axes.get_yscale(), axes.get_xlabel()) == ("log", "Epoch")
    assert axes.get_ylabel() == "Multitask training loss (log scale)"
    legend = axes.get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["1-bert (1.12)", "3-bert $k$ (1.50)"], "the mean of the last epoch"
    said = "Lines: mean of 1 or 2 seeds. Bands: smallest to largest seed."
    assert notes == [f"{said} In brackets: mean of the last epoch."]


def test_band_spans_the_seeds(tmp_path: Path) -> None:
    histories = {
        "one": {
            0: history(tmp_path / "a", [4, 3, 2, 1]),
            1: history(tmp_path / "b", [2, 5, 1, 0.5]),
        }
    }
    figure, _ = Spec(**spec(smooth=0)).plot(Inputs(histories))
    (band,) = figure.axes[0].collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert {(0.5, 2), (0.5, 4), (1, 3), (1, 5), (2, 0.5), (2, 1)} <= corners
    assert to_hex(band.get_facecolor()[0]) == style.look(0).color.lower()


def test_smoothing_is_stated_and_keeps_the_logged_line(tmp_path: Path) -> None:
    losses = [3.0, 1.0] * 20
    histories = {"one": {0: history(tmp_path / "a", losses)}}
    figure, notes = Spec(**spec(smooth=0.5)).plot(Inputs(histories))
    raw, smooth = figure.axes[0].lines
    np.testing.assert_allclose(raw.get_ydata(), losses)
    assert float(np.std(np.asarray(smooth.get_ydata())[5:-5])) < 0.1
    said = "Lines: 1 seed, running mean over 1 epoch (faint: as logged)."
    assert notes == [f"{said} In brackets: mean of the last epoch.", "Not run: 3-bert $k$."]


def test_running_mean_golden() -> None:
    epochs = np.arange(1, 6) / 10
    values = np.array([[1.0, 2, 6, 4, 5], [1, 1, 1, 1, 1]])
    smooth = running_mean(epochs, values, 0.2)
    np.testing.assert_allclose(smooth, [[1.5, 3, 4, 5, 4.5], [1, 1, 1, 1, 1]])
    np.testing.assert_array_equal(running_mean(epochs, values, 0.0), values)
    wide = running_mean(epochs, values, 10.0)
    np.testing.assert_allclose(wide[0], [3.6] * 5)


def test_epoch_length_without_dev_rows(tmp_path: Path) -> None:
    made = history(tmp_path / "a", [4, 3, 2, 1, 1, 1], epochs=3, dev=False)
    figure, _ = Spec(**spec(smooth=0)).plot(Inputs({"one": {0: made}}))
    x = np.asarray(labelled(figure.axes[0])["1-bert"].get_xdata())
    np.testing.assert_allclose(x, [0.5, 1, 1.5, 2, 2.5, 3])


def test_seeds_of_different_length_are_drawn_where_both_are(tmp_path: Path) -> None:
    histories = {
        "one": {
            0: history(tmp_path / "a", [4, 3, 2, 1], epochs=2),
            1: history(tmp_path / "b", [2, 1], epochs=1),
        }
    }
    figure, _ = Spec(**spec(smooth=0)).plot(Inputs(histories))
    y = np.asarray(labelled(figure.axes[0])["1-bert"].get_ydata())
    np.testing.assert_allclose(y, [3, 2])


def test_absent_runs_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = history(tmp_path / "a", [4, 3, 2, 1])
    histories = {"one": {0: made, 3: tmp_path / "none.parquet"}}
    _, notes = Spec(**spec()).plot(Inputs(histories))
    assert notes[-1] == "Not run: 1-bert (seed 3), 3-bert $k$."
    figure, notes = Spec(**spec()).plot(Inputs({}))
    assert notes == ["Not run: 1-bert, 3-bert $k$."]
    assert [text.get_text() for text in figure.axes[0].texts] == ["no run yet"]
    draw_kind("loss-curves", spec(), Inputs({}), tmp_path / "empty")
    assert (tmp_path / "empty.png").exists()
    saved: list[Figure] = []
    monkeypatch.setattr("minbert.figures.style.save", lambda made, *_, **__: saved.append(made))
    draw_kind("loss-curves", spec(), Inputs({}), tmp_path / "empty")
    assert saved[0].get_suptitle() == "Multitask loss"


def test_files_are_the_same_bytes_twice(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    histories = {
        name: {
            seed: history(tmp_path / f"{name}{seed}", list(generator.uniform(1, 2, 600)))
            for seed in (0, 1)
        }
        for name in VARIANTS
    }
    for name in ("a", "b"):
        draw_kind(
            "loss-curves", spec(caption="Figure 3"), Inputs(histories), tmp_path / "figures" / name
        )
    for ending in ("pdf", "png"):
        first, second = (tmp_path / "figures" / f"{name}.{ending}" for name in ("a", "b"))
        assert first.read_bytes() == second.read_bytes()
        assert len(first.read_bytes()) > 5000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"smoth": 0.1}, r"unknown key 'smoth'. Did you mean 'smooth'"),
        ({"smooth": 2}, r"key 'smooth'.*less than 1, found 2"),
        ({"variants": {}}, r"key 'variants'"),
        ({"metric": "los"}, r"a: no row of task 'overall', metric 'los', split 'train'"),
    ],
)
def test_wrong_specs_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    made = history(tmp_path / "a", [4, 3, 2, 1])
    with pytest.raises(UserError, match=message):
        draw_kind("loss-curves", spec(**change), Inputs({"one": {0: made}}), tmp_path / "figure")
    assert not (tmp_path / "figure.pdf").exists()


def test_wrong_histories_are_named(tmp_path: Path) -> None:
    made = history(tmp_path / "a", [4, 3, 2, 1])
    other = history(tmp_path / "b", [4, 3, 2, 1], every=7)
    with pytest.raises(UserError, match="no step in common"):
        draw_kind("loss-curves", spec(), Inputs({"one": {0: made, 1: other}}), tmp_path / "figure")
    table = pq.read_table(made)
    pq.write_table(table.drop_columns(["value"]), made)
    with pytest.raises(UserError, match="a: no column 'value'"):
        draw_kind("loss-curves", spec(), Inputs({"one": {0: made}}), tmp_path / "figure")
