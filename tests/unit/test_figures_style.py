"""The look that figures share, and how they are saved."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from figure_texts import text_faults
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from minbert.base.errors import UserError
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.make import draw_kind


def drawn() -> Figure:
    figure = style.new_figure()
    figure.add_subplot().plot([0, 1], [1, 2], label="a line")
    return figure


def test_files_hold_vectors_editable_text_and_300_dpi(tmp_path: Path) -> None:
    with style.style():
        figure = drawn()
        style.finish(figure, ["a note"], "a stamp", "T")
        style.save(figure, tmp_path / "name.v2", "T", "C")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["name.v2.pdf", "name.v2.png"]
    pdf = (tmp_path / "name.v2.pdf").read_bytes()
    assert b"/Subtype /Type0" in pdf or b"/FontFile2" in pdf, "TrueType, not outlines of Type 3"
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf
    assert b"/Title (T)" in pdf
    assert b"/Subject (C)" in pdf
    assert imread(tmp_path / "name.v2.png").shape[1] == round(style.COLUMN * 300)


def test_a_per_cent_sign_stays_beside_its_number() -> None:
    with style.style():
        figure = drawn()
        style.finish(figure, ["x" * length + " at the 5 % level" for length in range(60, 110)])
        lines = [text.get_text() for text in figure.texts]
    assert len(lines) > 60, "some are wrapped"
    assert not [line for line in lines if line.startswith("%")]


def axes_inches(notes: int, labels: int) -> float:
    """Return how high the axes are with so many notes below and labels above them."""
    with style.style():
        figure = style.new_figure()
        axes = figure.add_subplot()
        for number in range(labels):
            axes.plot([0, 1], [1, 2], label=f"a rather long label of variant {number}")
        style.add_legend(figure, axes.lines)
        assert text_faults(figure, ["a note"] * notes) == []
        box, inside = figure.legends[0].get_window_extent(), axes.get_window_extent()
        assert box.y0 >= inside.y1 and 0 <= box.x0 < box.x1 <= figure.bbox.width
        return axes.bbox.height / figure.dpi


def test_notes_and_long_legends_take_no_room_from_the_axes() -> None:
    few = axes_inches(0, 3)
    assert axes_inches(12, 3) == pytest.approx(few, abs=0.02)
    assert axes_inches(1, 40) == pytest.approx(few, abs=0.02)


def test_series_differ_by_colour_line_and_marker() -> None:
    looks = [style.look(index) for index in range(49)]
    assert len(set(map(str, looks))) == 49
    first = looks[: len(style.LOOKS)]
    assert len({str(look.linestyle) for look in first}) == len(first)
    assert len({look.marker for look in first}) == len(first)
    grey = [np.dot(to_rgb(look.color), (0.299, 0.587, 0.114)) for look in first]  # as Pillow's L
    assert min(np.diff(sorted(grey[:4]))) > 0.12, "four papers can be told apart in grey"
    assert min(abs(np.diff(grey))) > 0.12, "and neighbours"


def test_style_hides_the_users_settings_and_leaves_them() -> None:
    with mpl.rc_context({"font.size": 30.0, "pdf.fonttype": 3}):
        with style.style():
            assert (mpl.rcParams["font.size"], mpl.rcParams["pdf.fonttype"]) == (8, 42)
        assert (mpl.rcParams["font.size"], mpl.rcParams["pdf.fonttype"]) == (30, 3)


def test_notes_are_large_enough_and_titles_are_wrapped() -> None:
    with style.style():
        figure = drawn()
        height = figure.get_figheight()
        title = "a title of far more words than fit into a line of one column " * 2
        assert text_faults(figure, ["a note"], title=title) == []
    assert {text.get_fontsize() for text in figure.texts} == {7.0, 8.5}, "7 pt, as in a paper"
    assert "\n" in figure.get_suptitle() and figure.get_figheight() > height


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_size_without_room_for_panels_is_refused() -> None:
    with style.style():
        style.finish(drawn(), [], title="\u65e5\u672c\u8a9e", size=(3.5, 2.0))
        with pytest.raises(UserError, match=r"size 0\.3x0\.3: title and notes leave no room"):
            style.finish(drawn(), [], size=(0.3, 0.3))


def test_a_bare_figure_has_neither_title_nor_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def save(figure: Figure, *_: object) -> None:
        made.append(" ".join(text.get_text() for text in figure.texts))

    monkeypatch.setattr("minbert.figures.style.save", save)
    facts = {"rules": {"p": "plain"}}
    inputs = Inputs({"v": "V"}, scores={"p": tmp_path / "none"}, facts=facts)
    for bare in (True, False):
        about = {"title": "T", "stamp": "S"}
        draw_kind("ranking", {"bare": bare}, inputs, tmp_path / "figure", **about)
    assert made == ["Not run: V.", "T Not run: V. S"]


@pytest.mark.parametrize("colors", ["Blues", "PuOr"])
def test_words_on_a_heat_map_can_be_read_on_every_colour(colors: str) -> None:
    values = np.linspace(0, 1, 51)[None]
    with style.style():
        axes = style.new_figure().add_subplot()
        style.heat_map(axes, values, [["w"] * 51], ["r"], [""] * 51, (0, 1), colors)
    for value, text in zip(values[0], axes.texts, strict=True):
        rgb = np.array(colormaps[colors](value)[:3])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        behind = float(linear @ [0.2126, 0.7152, 0.0722])
        ink = {"black": 0.0, "white": 1.0}[text.get_color()]
        light, dark = max(ink, behind) + 0.05, min(ink, behind) + 0.05
        assert light / dark > 4.5, "the contrast that WCAG 2 asks for (section 1.4.3)"


def test_a_label_is_cut_in_its_middle() -> None:
    assert style.shorten("a  short\nlabel", 20) == "a short label"
    cut = style.shorten("RSS + MP + GS + CNN + Res + MLP[2]", 20)
    assert cut == "RSS + MP +\u2026+ MLP[2]" and len(cut) <= 20
