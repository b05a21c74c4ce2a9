"""Rows against values worked out by hand, and against torchao's debugger where it is right."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.ao.ns.fx.utils import compute_sqnr

from m05.graph_utils import sqnr
from m05.layerwise import LayerRow, layerwise_sqnr
from m05.pt2e import (
    compare_results,
    convert_pt2e,
    export_module,
    extract_results_from_loggers,
    get_xnnpack_quantizer,
    prepare_for_propagation_comparison,
    prepare_pt2e,
)


def _pipeline(model, x, quantizer=None):
    prepared = prepare_pt2e(export_module(model, (x,)), quantizer or get_xnnpack_quantizer()[0])
    reference = copy.deepcopy(prepared)
    prepared(x)
    return reference, convert_pt2e(prepared)


def test_one_linear_worked_out_by_hand():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 4)).eval(), torch.randn(32, 6)
    reference, converted = _pipeline(model, x)

    def fake(value, node):
        _, scale, zero_point, low, high, _ = node.args
        q = torch.clamp(torch.round(value / scale) + zero_point, low, high)
        return (q - zero_point) * scale

    quantizes = [n for n in converted.graph.nodes if "quantize_per_tensor.default" in str(n.target)]
    into, out = (n for n in quantizes if "dequantize" not in str(n.target))
    weight, bias = model[0].weight.detach(), model[0].bias.detach()
    step = weight.abs().amax(1, keepdim=True) / 127  # symmetric on -127…127, per channel
    weight = torch.clamp(torch.round(weight / step), -127, 127) * step
    y = fake(fake(x, into) @ weight.T + bias, out)

    (row,) = layerwise_sqnr(reference, converted, x)
    assert row.module == "0"
    with torch.no_grad():
        assert row.sqnr == pytest.approx(sqnr(model(x), y), abs=0.02)


def _nets():
    torch.manual_seed(0)
    conv_bn = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)
    )
    for i in (1, 4):
        conv_bn[i].running_mean.normal_()
        conv_bn[i].running_var.uniform_(0.01, 0.1)
    mlp = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Sigmoid())
    return {
        "conv_bn": (conv_bn.eval(), torch.randn(4, 3, 12, 12)),
        "mlp": (mlp.eval(), torch.randn(16, 8)),
    }


def _stock(reference, converted, x):
    """torchao's own comparison; with the signal where it belongs."""
    results = []
    for gm in (reference, converted):
        logged = prepare_for_propagation_comparison(gm)
        logged(x)
        results.append(extract_results_from_loggers(logged))
    matched = compare_results(*results)
    return [compute_sqnr(m.results[0].ref, m.results[0].actual).item() for m in matched.values()]


@pytest.mark.parametrize("name", ["conv_bn", "mlp", "tiny"])
def test_rows_agree_with_torchaos_debugger(name, tiny):
    if name == "tiny":
        reference, converted, x = *tiny.quantize()[:2], tiny.x[:64]
    else:
        model, x = _nets()[name]
        reference, converted = _pipeline(model, x)
    rows = layerwise_sqnr(reference, converted, x)
    assert [r.sqnr for r in rows] == pytest.approx(_stock(reference, converted, x), abs=1e-3)


def test_the_last_row_is_the_output():
    model, x = _nets()["mlp"]
    reference, converted = _pipeline(model, x)
    rows = layerwise_sqnr(reference, converted, x)
    with torch.no_grad():
        assert rows[-1].sqnr == pytest.approx(sqnr(model(x), converted(x)), abs=1e-6)


class ViewByBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4 * 36, 5)

    def forward(self, x):
        y = torch.relu(self.conv(x))
        return self.fc(y.view(y.shape[0], -1))


def test_sizes_are_no_position_and_no_obstacle():
    # Here torchao's compare_results stops with a ValueError at sym_size_int.
    reference, converted = _pipeline(ViewByBatch().eval(), torch.randn(4, 3, 8, 8))
    for batch in (1, 4, 9):
        rows = layerwise_sqnr(reference, converted, torch.randn(batch, 3, 8, 8))
        assert [r.module for r in rows] == ["conv", "(top)", "(top)", "fc"]


class InPlace(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1)
        self.relu = nn.ReLU(inplace=inplace)
        self.inplace = inplace

    def forward(self, x):
        y = self.relu(self.c1(x))
        z = self.c2(y)
        if self.inplace:
            z += y
        else:
            z = z + y
        return self.relu(z)


def test_in_place_operations_do_not_overwrite_what_is_compared():
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    rows = []
    for inplace in (False, True):
        torch.manual_seed(0)
        reference, converted = _pipeline(InPlace(inplace).eval(), x)
        rows.append(layerwise_sqnr(reference, converted, x))
    assert [r.module for r in rows[0]] == [r.module for r in rows[1]]
    assert [r.sqnr for r in rows[0]] == pytest.approx([r.sqnr for r in rows[1]])


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(mask, -math.inf).softmax(-1)


def test_a_mask_of_minus_infinity_is_neither_signal_nor_error():
    torch.manual_seed(0)
    reference, converted = _pipeline(Masked().eval(), torch.randn(2, 5, 8))
    rows = layerwise_sqnr(reference, converted, torch.randn(2, 5, 8))
    assert all(math.isfinite(r.sqnr) for r in rows if r.sqnr != math.inf)
    assert {"q", "k", "(top)"} <= {r.module for r in rows}


def test_zero_signals_have_the_rows_that_sqnr_defines():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).eval()
    nn.init.constant_(model[0].bias, -1e3)
    rows = layerwise_sqnr(*_pipeline(model, torch.randn(8, 4)), torch.randn(8, 4))
    assert rows[1] == LayerRow("1", math.inf)  # dead: zero in both


def test_graphs_of_different_exports_are_refused():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), torch.randn(4, 8)
    _, converted = _pipeline(model, x)
    with pytest.raises(ValueError, match=r"none of the 2 reference positions .*deepcopy"):
        layerwise_sqnr(export_module(model, (x,)), converted, x)


def test_a_value_that_cannot_be_compared_names_its_module():
    class Log(nn.Module):
        def forward(self, x):
            return torch.log(x)

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Log()).eval()
    with torch.no_grad():
        nn.init.ones_(model[0].weight)
        nn.init.zeros_(model[0].bias)
    x = torch.rand(8, 4)
    reference, converted = _pipeline(model, x)
    tiny = torch.full((1, 4), 1e-6)  # quantized to zero, whose logarithm is -inf
    with pytest.raises(ValueError, match=r"of module '2': sqnr got 4 non-finite of 4 .* in test"):
        layerwise_sqnr(reference, converted, tiny)


def test_several_inputs_go_in_a_tuple_and_nothing_is_mutated():
    class Add(nn.Module):
        def forward(self, a, b):
            return a + b

    args = (torch.randn(3, 4), torch.randn(3, 4))
    prepared = prepare_pt2e(export_module(Add().eval(), args), get_xnnpack_quantizer()[0])
    reference = copy.deepcopy(prepared)
    prepared(*args)
    converted = convert_pt2e(prepared)
    graphs = str(reference.graph), str(converted.graph)
    state = copy.deepcopy(reference.state_dict())
    (row,) = layerwise_sqnr(reference, converted, args)
    assert row.sqnr > 30
    assert (str(reference.graph), str(converted.graph)) == graphs
    for name, value in reference.state_dict().items():
        assert torch.equal(value, state[name])


def test_an_input_that_the_graph_overwrites_reaches_both_graphs_alike():
    class Overwrites(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x.add_(1))

    torch.manual_seed(0)
    reference, converted = _pipeline(Overwrites().eval(), torch.randn(32, 4))
    x = torch.randn(32, 4)
    before = x.clone()
    rows = layerwise_sqnr(reference, converted, x)
    assert torch.equal(x, before)
    with torch.no_grad():
        assert rows[-1].sqnr == pytest.approx(
            sqnr(reference(x.clone()), converted(x.clone())), abs=1e-6
        )


def test_an_additive_mask_that_is_all_minus_infinity_somewhere_loses_no_other_row():
    class AllMasked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            blank = torch.full_like(x, -math.inf)
            return torch.maximum(blank, self.fc(x))

    torch.manual_seed(0)
    x = torch.randn(8, 4)
    rows = layerwise_sqnr(*_pipeline(AllMasked().eval(), x), x)
    assert {r.module for r in rows} == {"(top)", "fc"}
    assert all(r.sqnr > 30 for r in rows)


def test_swapped_and_wrong_arguments_say_so():
    model, x = _nets()["mlp"]
    reference, converted = _pipeline(model, x)
    with pytest.raises(ValueError, match="the reference comes first"):
        layerwise_sqnr(converted, reference, x)
    with pytest.raises(TypeError, match="ref_gm is a graph module, got Sequential"):
        layerwise_sqnr(model, converted, x)
    with pytest.raises(TypeError, match="got list"):
        layerwise_sqnr(reference, converted, [x])


def test_a_reference_with_unfolded_batch_norm_warns():
    model, x = _nets()["conv_bn"]
    exported = export_module(model, (x,))
    prepared = prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    prepared(x)
    with pytest.warns(UserWarning, match="still has 2 batch norms, the first in module '1'"):
        layerwise_sqnr(exported, convert_pt2e(prepared), x)


def test_keyword_inputs_reach_both_graphs():
    class Gained(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, *, gain):
            return self.fc(x * gain)

    torch.manual_seed(0)
    x, kwargs = torch.randn(16, 4), {"gain": torch.rand(16, 4)}
    exported = export_module(Gained().eval(), (x,), kwargs)
    prepared = prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    reference = copy.deepcopy(prepared)
    prepared(x, **kwargs)
    converted = convert_pt2e(prepared)
    rows = layerwise_sqnr(reference, converted, x, kwargs=kwargs)
    with torch.no_grad():
        assert rows[-1].sqnr == pytest.approx(
            sqnr(exported(x, **kwargs), converted(x, **kwargs)), abs=1e-3
        )


def test_an_empty_batch_is_not_taken_for_another_export():
    model, x = _nets()["mlp"]
    with pytest.raises(ValueError, match=r"positions match, and none holds .* the batch is empty"):
        layerwise_sqnr(*_pipeline(model, x), x[:0])
