import math

import pytest
import torch
from torch import nn
from torch.ao.ns.fx.utils import compute_sqnr

from m05.graph_utils import is_under, module_path, module_paths, qdq_nodes, sqnr
from m05.pt2e import export_module


def test_sqnr_is_20_db_when_the_error_is_a_tenth_of_the_signal():
    ref = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert sqnr(ref, ref * 1.1) == pytest.approx(20.0, abs=1e-4)
    assert sqnr(ref, ref * 0.9) == pytest.approx(20.0, abs=1e-4)


def test_sqnr_of_uniform_rounding_has_its_closed_form():
    # Signal uniform on [-1, 1]: power 1/3. Rounding error uniform on half a step: power step²/12.
    step = 2 / 255
    x = torch.rand(200_000, generator=torch.Generator().manual_seed(0)) * 2 - 1
    expected = 10 * math.log10((1 / 3) / (step**2 / 12))
    assert sqnr(x, torch.round(x / step) * step) == pytest.approx(expected, abs=0.05)


def test_sqnr_agrees_with_torch():
    g = torch.Generator().manual_seed(1)
    ref, test = torch.randn(3, 5, 7, generator=g), torch.randn(3, 5, 7, generator=g)
    assert sqnr(ref, test) == pytest.approx(compute_sqnr(ref, test).item(), abs=1e-4)


def test_the_signal_is_the_reference():
    ref, test = torch.ones(4), torch.full((4,), 3.0)
    assert sqnr(ref, test) == pytest.approx(10 * math.log10(1 / 4))
    assert sqnr(test, ref) == pytest.approx(10 * math.log10(9 / 4))


@pytest.mark.parametrize(
    ("ref", "test", "expected"),
    [
        (torch.ones(3), torch.ones(3), math.inf),
        (torch.zeros(3), torch.zeros(3), math.inf),
        (torch.zeros(3), -torch.zeros(3), math.inf),
        (torch.zeros(3), torch.ones(3), -math.inf),
        (torch.ones(3), torch.zeros(3), 0.0),
        (torch.tensor(2.0), torch.tensor(1.0), 10 * math.log10(4)),  # no dimension at all
    ],
)
def test_sqnr_has_a_defined_answer_at_the_edges(ref, test, expected):
    assert sqnr(ref, test) == pytest.approx(expected)


def test_sqnr_sums_in_float64():
    # In float32 the small terms vanish beside the large one, in the signal and in the error.
    ref = torch.tensor([1e10, 1.0], dtype=torch.float64)
    test = torch.tensor([1e10, 0.0], dtype=torch.float64)
    assert sqnr(ref, test) == pytest.approx(200.0, abs=1e-9)
    half = torch.ones(4096, dtype=torch.float16)  # the sum alone is beyond what float16 resolves
    assert sqnr(half, half * 0.5) == pytest.approx(10 * math.log10(4), abs=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e-310, 1e200, 1.7e308])
def test_sqnr_does_not_depend_on_the_scale(scale):
    ref = torch.tensor([1.0, -0.5], dtype=torch.float64)
    assert sqnr(ref * scale, -ref * scale) == pytest.approx(10 * math.log10(1 / 4), abs=1e-6)


def test_sqnr_takes_tensors_of_different_dtype_and_with_gradients():
    ref = torch.tensor([1.0, 2.0], requires_grad=True)
    assert sqnr(ref, torch.tensor([1.0, 2.5], dtype=torch.bfloat16)) == pytest.approx(
        10 * math.log10(5 / 0.25)
    )


@pytest.mark.parametrize(
    ("ref", "test", "error", "text"),
    [
        (torch.ones(2, 3), torch.ones(3, 2), ValueError, r"ref \(2, 3\) and test \(3, 2\)"),
        (torch.ones(2, 1), torch.ones(2), ValueError, "equal shape"),
        (torch.ones(0, 3), torch.ones(0, 3), ValueError, "empty tensors of shape"),
        (torch.tensor([1, math.nan]), torch.ones(2), ValueError, "1 non-finite of 2 values in ref"),
        (torch.ones(2), torch.tensor([math.inf, 1]), ValueError, "non-finite of 2 values in test"),
        (torch.ones(2), torch.ones(2, dtype=torch.int8), TypeError, "torch.int8 for test"),
        (torch.ones(2, dtype=torch.bool), torch.ones(2), TypeError, "torch.bool for ref"),
        (torch.ones(2, dtype=torch.cfloat), torch.ones(2), TypeError, "torch.complex64"),
        (torch.ones(2).to_sparse(), torch.ones(2), TypeError, "sparse"),
        ((torch.ones(2),), torch.ones(2), TypeError, "got tuple for ref"),
        ([1.0], [1.0], TypeError, "got list for ref"),
    ],
)
def test_sqnr_says_what_it_cannot_compare(ref, test, error, text):
    with pytest.raises(error, match=text):
        sqnr(ref, test)


def test_qdq_nodes_counts_by_hand():
    # One linear, written by hand: weight dequantized, activation quantized and dequantized.
    q = torch.ops.quantized_decomposed

    def forward(x):
        a = q.quantize_per_tensor.default(x, 0.1, 0, -128, 127, torch.int8)
        return torch.relu(q.dequantize_per_tensor.default(a, 0.1, 0, -128, 127, torch.int8))

    graph = torch.fx.symbolic_trace(forward)
    assert [n.target.__name__ for n in qdq_nodes(graph)] == [
        "quantize_per_tensor.default",
        "dequantize_per_tensor.default",
    ]


def test_a_float_graph_has_no_qdq_nodes():
    assert qdq_nodes(export_module(nn.Linear(2, 2).eval(), (torch.ones(2, 2),))) == []


class _Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.act2 = nn.Sequential(nn.Linear(4, 4))

    def forward(self, x):
        return self.act(self.act2(self.act(x))) + 1


@pytest.mark.parametrize("strict", [False, True])
def test_module_paths_are_those_of_named_modules(strict):
    model = _Twice().eval()
    gm = torch.export.export(model, (torch.ones(2, 4),), strict=strict).module()
    calls = [n for n in gm.graph.nodes if n.op == "call_function"]
    assert [module_path(n) for n in calls] == ["act", "act2.0", "act", ""]
    assert module_paths(gm) == ["act", "act2", "act2.0"]
    assert set(module_paths(gm)) == set(dict(model.named_modules())) - {""}


def test_is_under_stops_at_the_dot():
    assert is_under("b1.conv", ["b1"])
    assert is_under("b1", ["b1"])
    assert not is_under("b10.conv", ["b1"])
    assert not is_under("b1", ["b1.conv"])
    assert not is_under("", ["b1"])
