"""The chapter's structure on the shipped net: counts, positions, order. Figures may move."""

import itertools

import pytest

from m05.data import calibration_batches, evaluate
from m05.graph_utils import qdq_nodes, sqnr
from m05.layerwise import layerwise_sqnr
from m05.models import TinyConvNet, example_inputs
from m05.pt2e import convert_pt2e, get_xnnpack_quantizer, prepare_pt2e

POSITIONS = [
    "stem.conv", "stem.relu", "pool1", "block.conv1", "block.relu", "block.conv2", "block",
    "block.relu", "pool2", "head_conv.conv", "head_conv.relu", "gap", "(top)", "fc",
]  # fmt: skip
MODULES = ["stem", "block", "head_conv", "fc"]


@pytest.fixture(scope="module")
def gain(tiny):
    def of(skip=(), no_output=()):
        quantized = tiny.quantize(skip, no_output).converted
        return sqnr(tiny.y_float, quantized(tiny.x)) - sqnr(
            tiny.y_float, tiny.quantize().converted(tiny.x)
        )

    return of


@pytest.mark.parametrize(
    ("skip", "no_output", "count"),
    [
        ((), (), 28),
        (("stem",), (), 23),
        (("block",), (), 19),
        (("head_conv",), (), 23),
        (("fc",), (), 25),
        ((), ("fc",), 26),
    ],
)
def test_qdq_counts(tiny, skip, no_output, count):
    assert len(qdq_nodes(tiny.quantize(skip, no_output).converted)) == count


def test_accuracy_hardly_moves_and_sqnr_sees_the_error(tiny):
    fp32 = evaluate(tiny.model, tiny.loader)
    int8 = evaluate(tiny.quantize().converted, tiny.loader)
    assert 0.66 < fp32 < 0.76
    assert abs(fp32 - int8) < 0.02
    assert 20 < sqnr(tiny.y_float, tiny.quantize().converted(tiny.x)) < 32


def test_fc_is_the_one_that_helps_and_the_largest_drop_is_not(gain):
    gains = {name: gain(skip=[name]) for name in MODULES}
    assert gains["fc"] > 3
    assert gains["fc"] > 2 + max(gains[name] for name in MODULES if name != "fc")
    assert gains["stem"] > gains["head_conv"]
    assert gains["head_conv"] < 0.5


def test_the_output_of_fc_is_as_good_as_all_of_it(gain):
    assert gain(no_output=["fc"]) == pytest.approx(gain(skip=["fc"]), abs=0.5)


def test_error_accumulates_and_most_at_the_last(tiny):
    levels = [
        sqnr(tiny.y_float, tiny.quantize(skip=MODULES[k:]).converted(tiny.x)) for k in (1, 2, 3, 4)
    ]
    falls = [later - earlier for earlier, later in itertools.pairwise(levels)]
    assert all(fall < 0 for fall in falls)
    assert min(falls) == falls[-1]


@pytest.fixture(scope="module")
def rows(tiny):
    (x,) = next(calibration_batches(64, seed=9))
    quantized = tiny.quantize()
    return layerwise_sqnr(quantized.reference, quantized.converted, x)


def test_the_fourteen_positions_in_order(rows):
    assert [row.module for row in rows] == POSITIONS


def test_layerwise_falls_from_first_to_last_but_not_at_every_step(rows):
    steps = [after.sqnr - before.sqnr for before, after in itertools.pairwise(rows)]
    assert rows[-1].sqnr < rows[0].sqnr - 3
    assert sum(step > 0 for step in steps) == 6
    assert rows[steps.index(min(steps)) + 1].module == "head_conv.conv"


def test_per_channel_weights_are_better_than_per_tensor(tiny):
    prepared = prepare_pt2e(tiny.exported, get_xnnpack_quantizer(is_per_channel=False)[0])
    for batch in calibration_batches(256, seed=15):
        prepared(*batch)
    per_tensor = sqnr(tiny.y_float, convert_pt2e(prepared)(tiny.x))
    assert sqnr(tiny.y_float, tiny.quantize().converted(tiny.x)) > per_tensor


def test_the_net_the_issue_describes():
    children = [name for name, _ in TinyConvNet().named_children()]
    assert children == ["stem", "pool1", "block", "pool2", "head_conv", "gap", "fc"]
    (x,) = example_inputs()
    assert x.shape[1:] == (3, 16, 16)
    assert TinyConvNet().eval()(x).shape == (len(x), 10)
