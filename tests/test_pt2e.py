import copy
import sys
import warnings

import pytest
import torch
from helpers import EXECUTORCH, TORCHAO
from torch import nn
from torch.fx import GraphModule

from m05.data import trained_tiny_net
from m05.graph_utils import qdq_nodes
from m05.models import TinyConvNet, example_inputs
from m05.pt2e import convert_pt2e, export_module, get_xnnpack_quantizer, prepare_pt2e, quiet


def _calls(gm, name):
    return [n for n in gm.graph.nodes if n.op == "call_function" and name in str(n.target)]


class ViewByBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 36, 5)

    def forward(self, x):
        y = torch.relu(self.bn(self.conv(x)))
        return self.fc(y.view(y.shape[0], -1))


@pytest.mark.parametrize("example", [1, 2, 7])
def test_the_batch_dimension_is_dynamic_at_every_stage(example):
    model = ViewByBatch().eval()
    exported = export_module(model, (torch.randn(example, 3, 8, 8),))
    prepared = prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    for size in (1, 7, 3):
        x = torch.randn(size, 3, 8, 8)
        torch.testing.assert_close(exported(x), model(x))
        torch.testing.assert_close(prepared(x), model(x), rtol=1e-4, atol=1e-5)
    converted = copy.deepcopy(convert_pt2e(prepared))
    for size in (1, 7, 3):
        assert converted(torch.randn(size, 3, 8, 8)).shape == (size, 5)


class TwoInputs(nn.Module):
    def forward(self, x, extra, *, gain):
        return {"y": x @ extra["weight"] * gain, "rows": extra["scale"] * x.sum(1)}


def test_nested_and_keyword_inputs_share_the_batch():
    model = TwoInputs().eval()
    inputs = (torch.ones(1, 4), {"weight": torch.ones(4, 3), "scale": torch.tensor(2.0)})
    gm = export_module(model, inputs, {"gain": torch.ones(1, 3)})
    out = gm(torch.ones(5, 4), inputs[1], gain=torch.ones(5, 3))
    assert out["y"].shape == (5, 3)
    assert out["rows"].tolist() == [8.0] * 5


class FixedBatch(nn.Module):
    def forward(self, x):
        return x.reshape(2, -1)


def test_a_model_that_fixes_its_batch_says_so_and_can_be_exported_fixed():
    with pytest.raises(ValueError, match="FixedBatch cannot be exported with a dynamic batch"):
        export_module(FixedBatch().eval(), (torch.ones(2, 4),))
    gm = export_module(FixedBatch().eval(), (torch.ones(2, 4),), dynamic_batch=False)
    assert gm(torch.ones(2, 4)).shape == (2, 4)


def test_export_says_what_it_got_instead():
    with pytest.raises(TypeError, match="write \\(x,\\)"):
        export_module(nn.Linear(2, 2).eval(), torch.ones(2, 2))
    with pytest.raises(TypeError, match="got builtin_function_or_method"):
        export_module(torch.relu_, (torch.ones(2, 2),))


def test_export_in_train_mode_warns_and_does_not_touch_the_model():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    before = copy.deepcopy(model.state_dict())
    with pytest.warns(UserWarning, match="train mode"):
        gm = export_module(model, (torch.randn(2, 3, 8, 8),))
    gm(torch.randn(4, 3, 8, 8))
    assert model.training
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_nothing_in_the_flow_mutates_its_argument():
    model = trained_tiny_net()
    weights = copy.deepcopy(model.state_dict())
    exported = export_module(model, example_inputs())
    graph = str(exported.graph)
    prepared = prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    assert str(exported.graph) == graph
    prepared(*example_inputs(8))
    graph, x = str(prepared.graph), example_inputs(8)[0]
    first, second = convert_pt2e(prepared), convert_pt2e(prepared)
    assert str(prepared.graph) == graph
    torch.testing.assert_close(first(x), second(x), rtol=0, atol=0)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, weights[name], rtol=0, atol=0)


def test_prepare_folds_batch_norm_without_changing_the_function():
    model = TinyConvNet()
    with torch.no_grad():  # statistics and weights that are not the neutral ones
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_()
                m.running_var.uniform_(0.5, 2)
                m.weight.uniform_(0.5, 2)
                m.bias.normal_()
    model.eval()
    prepared = prepare_pt2e(export_module(model, example_inputs()), get_xnnpack_quantizer()[0])
    assert not _calls(prepared, "batch_norm")
    x = torch.randn(5, 3, 16, 16)
    torch.testing.assert_close(prepared(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("step", [prepare_pt2e, convert_pt2e])
def test_an_eager_model_is_refused_with_the_next_step(step):
    args = (nn.Linear(2, 2),) + ((None,) if step is prepare_pt2e else ())
    with pytest.raises(TypeError, match="export the model first"):
        step(*args)


@pytest.mark.parametrize("batches", [[], [torch.ones(0, 3, 16, 16)]])
def test_converting_without_data_is_an_error(batches):
    exported = export_module(trained_tiny_net(), example_inputs())
    prepared = prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    for x in batches:
        prepared(x)
    with pytest.raises(ValueError, match=r"saw no data.*calibration batch"):
        convert_pt2e(prepared)


def test_per_tensor_weights_have_one_scale():
    exported = export_module(trained_tiny_net(), example_inputs())
    for per_channel, scales in ((True, 5), (False, 0)):
        quantizer, config = get_xnnpack_quantizer(is_per_channel=per_channel)
        assert quantizer.global_config is config
        prepared = prepare_pt2e(exported, quantizer)
        prepared(*example_inputs(8))
        assert len(_calls(convert_pt2e(prepared), "dequantize_per_channel")) == scales


@pytest.mark.usefixtures("with_executorch")
def test_executorch_is_preferred_when_installed():
    assert type(get_xnnpack_quantizer()[0]).__module__ == EXECUTORCH


def test_torchao_is_used_without_executorch():
    assert type(get_xnnpack_quantizer()[0]).__module__ == TORCHAO


def test_without_either_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, TORCHAO, None)
    with pytest.raises(ImportError, match=r"install executorch, or torchao 0\.18"):
        get_xnnpack_quantizer()


@pytest.mark.usefixtures("with_executorch")
def test_both_quantizers_give_the_same_graph_and_the_same_numbers(monkeypatch):
    exported, x = export_module(trained_tiny_net(), example_inputs()), example_inputs(16)[0]
    results = []
    for module in (EXECUTORCH, TORCHAO):
        quantizer, _ = get_xnnpack_quantizer()
        assert type(quantizer).__module__ == module
        prepared = prepare_pt2e(exported, quantizer)
        prepared(x)
        results.append(convert_pt2e(prepared))
        monkeypatch.setitem(sys.modules, EXECUTORCH, None)
    assert len(qdq_nodes(results[0])) == len(qdq_nodes(results[1])) == 28
    torch.testing.assert_close(results[0](x), results[1](x), rtol=0, atol=0)


def test_quiet_silences_by_name_and_puts_everything_back():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with quiet():
            warnings.warn("XNNPACKQuantizer is deprecated!", stacklevel=1)
            warnings.warn("another XNNPACKQuantizer matter", stacklevel=1)
        warnings.warn("XNNPACKQuantizer is deprecated!", stacklevel=1)
    assert [str(w.message) for w in seen] == [
        "another XNNPACKQuantizer matter",
        "XNNPACKQuantizer is deprecated!",
    ]


def test_quiet_works_without_with():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        quiet()
        warnings.warn("XNNPACKQuantizer is deprecated!", stacklevel=1)
    assert seen == []


def test_the_graph_module_is_a_graph_module():
    assert isinstance(export_module(nn.Linear(2, 2).eval(), (torch.ones(2, 2),)), GraphModule)


@pytest.mark.parametrize("copied", [False, True])
def test_dynamic_quantization_converts_from_a_copy_too(copied):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval(), torch.randn(4, 8)
    quantizer, _ = get_xnnpack_quantizer()
    module = sys.modules[type(quantizer).__module__]
    quantizer.set_global(module.get_symmetric_quantization_config(is_dynamic=True))
    prepared = prepare_pt2e(export_module(model, (x,)), quantizer)
    prepared(x)
    if copied:
        with quiet():
            prepared = copy.deepcopy(prepared)
    converted = convert_pt2e(prepared)
    assert _calls(converted, "choose_qparams")
    torch.testing.assert_close(converted(x), model(x), atol=0.05, rtol=0.05)


def test_graphs_in_the_wrong_state_are_refused():
    exported = export_module(trained_tiny_net(), example_inputs())
    quantizer, _ = get_xnnpack_quantizer()
    prepared = prepare_pt2e(exported, quantizer)
    prepared(*example_inputs(8))
    converted = convert_pt2e(prepared)
    for graph in (prepared, converted):
        with pytest.raises(ValueError, match="prepared or converted already"):
            prepare_pt2e(graph, quantizer)
    with pytest.raises(ValueError, match="converted already"):
        convert_pt2e(converted)


def test_the_pair_in_place_of_the_quantizer_is_named():
    exported = export_module(nn.Linear(2, 2).eval(), (torch.ones(2, 2),))
    with pytest.raises(TypeError, match=r"got tuple; .* returns"):
        prepare_pt2e(exported, get_xnnpack_quantizer())


def test_a_parametrized_weight_points_to_its_cure():
    conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3))
    exported = export_module(
        nn.Sequential(conv, nn.BatchNorm1d(8)).eval(), (torch.randn(2, 4, 20),)
    )
    with pytest.raises(ValueError, match="get_attr") as caught:
        prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    assert "strip_weight_norm" in "".join(caught.value.__notes__)


def test_one_quiet_serves_twice():
    once = quiet()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with once:
            pass
        with once:
            warnings.warn("XNNPACKQuantizer is deprecated!", stacklevel=1)
    assert seen == []
