import math

import pytest
from bs4 import BeautifulSoup
from wcwidth import wcswidth

from m05._figures import INK
from m05.viz import figure, plot_layerwise, prose, source, table


def test_a_table_reads_as_text_and_as_html():
    shown = table([("stem", 33.126, 23), ("fc", -math.inf, None)], ["module", "SQNR (dB)", "q/dq"])
    soup = BeautifulSoup(shown._repr_html_(), "html.parser")
    assert [th.get_text().strip() for th in soup.select("th")] == ["module", "SQNR (dB)", "q/dq"]
    cells = [[td.get_text().strip() for td in tr.select("td")] for tr in soup.select("tbody tr")]
    assert cells == [["stem", "33.13", "23"], ["fc", "-∞", ""]]
    lines = repr(shown).splitlines()
    assert len(lines) == 4
    assert "33.13" in lines[2]


def test_chinese_text_is_aligned_by_its_width():
    lines = repr(table([("量化", 1), ("float", 22)], ["模型", "數量"])).splitlines()
    assert len({wcswidth(line) for line in lines}) == 1


def test_html_is_escaped():
    assert "<b>" not in table([("<b>", 1)], ["a", "b"])._repr_html_()


def test_a_table_without_rows_shows_its_headers_and_a_short_row_is_an_error():
    assert "module" in repr(table([], ["module", "dB"]))
    with pytest.raises(ValueError, match="row 1 has 1 cells and there are 2 headers"):
        table([("a", 1), ("b",)], ["module", "dB"])
    assert table(iter([(1, 2)]), ["a", "b"]).rows == ((1, 2),)


def test_figures_are_equal_files_when_equal_and_carry_their_text():
    figures = [plot_layerwise([("a", 40.0), ("b", 30.0)], "Falls to 30 dB.") for _ in range(2)]
    assert figures[0].svg == figures[1].svg
    data, metadata = figures[0]._repr_mimebundle_()
    assert metadata["image/svg+xml"]["alt"] == "Falls to 30 dB."
    assert "Falls to 30 dB." in data["text/plain"]
    assert INK in data["image/svg+xml"]
    assert "−10.0 dB" in data["image/svg+xml"] or "-10.0 dB" in data["image/svg+xml"]


def test_positions_without_a_finite_value_are_drawn_around():
    assert plot_layerwise([("a", math.inf), ("b", 30.0), ("c", -math.inf)], "x").svg
    with pytest.raises(ValueError, match="no rows"):
        plot_layerwise([], "x")


def test_a_figure_needs_words():
    with pytest.raises(ValueError, match="alt text"):
        figure(lambda ax: ax.plot([1, 2]), " ")


def test_drawing_does_not_touch_the_readers_matplotlib_settings():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figure(lambda ax: ax.plot([1, 2]), "a line")
    assert dict(mpl.rcParams) == before


def test_source_is_the_installed_one():
    shown = source(table)
    assert shown.code.startswith("def table(")
    assert "m05.viz.table" in shown._repr_markdown_()
    assert prose("33 dB")._repr_markdown_() == repr(prose("33 dB")) == "33 dB"


def test_no_drop_is_marked_where_there_is_none():
    assert "dB</" not in plot_layerwise([("a", 20.0), ("b", 21.0)], "rises").svg.replace(
        "SQNR (dB)</", ""
    )
    assert "+1.0" not in plot_layerwise([("a", math.inf), ("b", 20.0), ("c", 21.0)], "rises").svg


def test_scalars_of_numpy_and_torch_are_formatted_like_floats():
    import numpy as np
    import torch

    shown = repr(table([(np.float32(3.14159), torch.tensor(2.71828))], ["a", "b"]))
    assert "3.14" in shown
    assert "2.72" in shown
    assert "tensor" not in shown
