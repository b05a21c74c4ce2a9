"""Batch norms that torchao folds with harm are refused; those it folds well are not."""

import copy

import pytest
import torch
from torch import nn

from m05.pt2e import export_module, get_xnnpack_quantizer, prepare_pt2e


def _batch_norm():
    bn = nn.BatchNorm2d(4)
    bn.running_mean.normal_()
    bn.running_var.uniform_(0.5, 2)
    return bn


class Net(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.c1, self.c2 = (nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))
        self.b1, self.b2 = _batch_norm(), _batch_norm()
        self.call = forward

    def forward(self, x):
        return self.call(self, x)


def _two_heads(net, x):
    y = net.c1(x)
    return net.b1(y) + net.b2(y)


HARMFUL = {
    "skip around the norm": (lambda n, x: (y := n.c1(x)) + n.c2(torch.relu(n.b1(y))), "also goes"),
    "two norms on one output": (_two_heads, "also goes to"),
    "two norms on one weight": (lambda n, x: n.b2(n.c1(n.b1(n.c1(x)))), "also folded with"),
    "a call without a norm": (lambda n, x: n.b1(n.c1(n.c1(x))), "also serves"),
}
HARMLESS = {
    "one norm each": lambda n, x: n.b2(n.c2(n.b1(n.c1(x)))),
    "both called twice": lambda n, x: n.b1(n.c1(n.b1(n.c1(x)))),
    "norm without a convolution": lambda n, x: n.b1(torch.relu(n.c1(x))),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_folding_is_refused_and_a_copy_of_the_layer_cures(name):
    torch.manual_seed(0)
    forward, text = HARMFUL[name]
    exported = export_module(Net(forward).eval(), (torch.randn(2, 4, 8, 8),))
    with pytest.raises(ValueError, match=rf"batch norm .*module 'b[12]'.*{text}.*copy.deepcopy"):
        prepare_pt2e(exported, get_xnnpack_quantizer()[0])


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_folding_keeps_the_function(name):
    torch.manual_seed(0)
    model, x = Net(HARMLESS[name]).eval(), torch.randn(2, 4, 8, 8)
    prepared = prepare_pt2e(export_module(model, (x,)), get_xnnpack_quantizer()[0])
    torch.testing.assert_close(prepared(x), model(x), rtol=1e-4, atol=1e-4)


def test_weights_that_are_tied_under_two_names():
    torch.manual_seed(0)
    model = Net(lambda n, x: n.b2(n.c2(n.b1(n.c1(x))))).eval()
    model.c2.weight = model.c1.weight
    exported = export_module(model, (torch.randn(2, 4, 8, 8),))
    with pytest.raises(ValueError, match="its weight is also folded with"):
        prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    cured = copy.deepcopy(model)
    cured.c2 = copy.deepcopy(cured.c2)
    prepare_pt2e(export_module(cured, (torch.randn(2, 4, 8, 8),)), get_xnnpack_quantizer()[0])
