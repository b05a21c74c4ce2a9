import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from m05.graph_utils import sqnr
from m05.pt2e import convert_pt2e, export_module, get_xnnpack_quantizer, prepare_pt2e
from m05.weight_norm import strip_weight_norm

weight_norm = parametrizations.weight_norm


def _net(norm):
    torch.manual_seed(0)
    net = nn.Sequential(
        norm(nn.Conv1d(4, 8, 3)), nn.BatchNorm1d(8), nn.ReLU(), norm(nn.Conv1d(8, 6, 3))
    )
    net[1].running_var.uniform_(0.5, 2)
    return net.eval(), (torch.randn(2, 4, 20),)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_the_function_stays_and_batch_norm_can_be_folded(dim):
    model, inputs = _net(lambda m: weight_norm(m, dim=dim))
    exported = export_module(model, inputs)
    with pytest.raises(ValueError, match="Expected get_attr node"):
        prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    stripped = strip_weight_norm(exported)
    torch.testing.assert_close(stripped(*inputs), model(*inputs))
    prepared = prepare_pt2e(stripped, get_xnnpack_quantizer()[0])
    prepared(*inputs)
    with torch.no_grad():
        assert sqnr(model(*inputs), convert_pt2e(prepared)(*inputs)) > 30


@pytest.mark.filterwarnings(
    "ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning",
    "ignore:The tensor attributes self:UserWarning",  # its hook sets them at each call
)
def test_the_old_weight_norm_is_stripped_too():
    model, inputs = _net(torch.nn.utils.weight_norm)
    stripped = strip_weight_norm(export_module(model, inputs))
    torch.testing.assert_close(stripped(*inputs), model(*inputs))
    assert sorted(dict(stripped.named_parameters())) == [
        "0.bias", "0.weight", "1.bias", "1.weight", "3.bias", "3.weight",
    ]  # fmt: skip


def test_nothing_is_orphaned_and_the_argument_is_untouched():
    model, inputs = _net(weight_norm)
    exported = export_module(model, inputs)
    graph, names = str(exported.graph), sorted(exported.state_dict())
    stripped = strip_weight_norm(exported)
    assert (str(exported.graph), sorted(exported.state_dict())) == (graph, names)
    assert not any("parametrizations" in name for name in stripped.state_dict())
    assert not any("parametrizations" in name for name, _ in stripped.named_modules())
    assert sorted(dict(stripped.named_parameters())) == [
        "0.bias", "0.weight", "1.bias", "1.weight", "3.bias", "3.weight",
    ]  # fmt: skip
    torch.testing.assert_close(stripped.get_parameter("0.weight"), model[0].weight)


def test_a_graph_without_weight_norm_comes_back_equal():
    exported = export_module(nn.Linear(4, 3).eval(), (torch.ones(2, 4),))
    stripped = strip_weight_norm(exported)
    assert str(stripped.graph) == str(exported.graph)
    assert stripped is not exported


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = weight_norm(nn.Conv1d(4, 4, 3, padding=1))

    def forward(self, x):
        return self.conv(self.conv(x))


def test_a_convolution_that_is_called_twice():
    torch.manual_seed(0)
    model, inputs = Twice().eval(), (torch.randn(2, 4, 10),)
    stripped = strip_weight_norm(export_module(model, inputs))
    torch.testing.assert_close(stripped(*inputs), model(*inputs))
    assert not any("parametrizations" in name for name in stripped.state_dict())
