"""SkipQuantizer on nets of every shape of sharing, with expectations read off the graph."""

import functools
import itertools

import pytest
import torch
from torch import nn
from torchao.quantization.pt2e import HistogramObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationSpec,
    SharedQuantizationSpec,
)

from m05.graph_utils import is_under, module_path, qdq_nodes
from m05.pt2e import (
    ANNOTATION_KEY,
    QuantizationAnnotation,
    Quantizer,
    convert_pt2e,
    export_module,
    get_xnnpack_quantizer,
    prepare_pt2e,
)
from m05.skip import SkipQuantizer


class Concat(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, padding=1)
        self.b = nn.Conv2d(3, 4, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        y = torch.cat([self.a(x), self.b(x)], 1)
        return self.fc(torch.flatten(self.pool(y), 1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.c(x))


class Chain(nn.Module):
    """b1 and b10: one name is the start of the other; pooling chains share one observer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6())
        self.b1, self.b10 = Block(), Block()
        self.p1, self.p2 = nn.MaxPool2d(2), nn.AvgPool2d(1)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.p2(self.p1(self.b10(self.b1(self.stem(x)))))
        return self.fc(self.drop(x.mean((2, 3))))


NETS = {"concat": Concat, "chain": Chain}
MODULES = {
    "concat": ["a", "b", "pool", "fc"],
    "chain": ["stem", "stem.0", "stem.1", "b1", "b1.c", "b10", "p1", "fc"],
}
EXCLUSIONS = [
    *(("concat", names) for names in itertools.combinations(MODULES["concat"], 2)),
    *((name, (module,)) for name in NETS for module in MODULES[name]),
    ("chain", ("b1", "b10")),
    ("chain", ("stem.1", "p1")),
    ("chain", ("b1.c", "fc")),
]


@functools.cache
def _exported(net):
    torch.manual_seed(0)
    model, x = net().eval(), torch.randn(4, 3, 12, 12)
    return model, x, export_module(model, (x,))


def _quantize(net, skip=(), no_output=()):
    model, x, exported = _exported(net)
    quantizer = SkipQuantizer(get_xnnpack_quantizer()[0], skip=skip, no_output=no_output)
    prepared = prepare_pt2e(exported, quantizer)
    prepared(x)
    converted = convert_pt2e(prepared)
    return model, converted, converted(x), model(x)


def _own_weight_nodes(converted, names):
    return [
        n.args[1]
        for n in converted.graph.nodes
        if n.op == "call_function"
        and str(n.target) in ("aten.conv2d.default", "aten.linear.default")
        and is_under(module_path(n), names)
    ]


@pytest.mark.parametrize(("name", "skip"), EXCLUSIONS)
def test_any_exclusion_prepares_and_leaves_its_weights_in_float(name, skip):
    model, converted, y, _ = _quantize(NETS[name], skip)
    assert torch.isfinite(y).all()
    weights = _own_weight_nodes(converted, skip)
    assert all(w.op == "get_attr" for w in weights)  # a quantized one would be a dequantize
    for weight, path in zip(weights, [str(w.target) for w in weights], strict=True):
        torch.testing.assert_close(
            converted.get_parameter(str(weight.target)), model.get_parameter(path)
        )


def test_skipping_everything_gives_the_float_model():
    names = ["stem", "b1", "b10", "p1", "p2", "fc"]
    _, converted, y, y_float = _quantize(Chain, skip=names)
    assert qdq_nodes(converted) == []
    torch.testing.assert_close(y, y_float)


def test_a_name_is_not_a_prefix():
    _, converted, *_ = _quantize(Chain, skip=["b1"])
    assert [w.op for w in _own_weight_nodes(converted, ["b1"])] == ["get_attr"]
    assert [w.op for w in _own_weight_nodes(converted, ["b10"])] == ["call_function"]


def test_cleared_lists_the_cascade_in_graph_order():
    torch.manual_seed(0)
    quantizer = SkipQuantizer(get_xnnpack_quantizer()[0], skip=["b10"])
    prepare_pt2e(export_module(Chain().eval(), (torch.randn(2, 3, 12, 12),)), quantizer)
    # The mean stands in the top module. b10's add and relu are nodes of b10 itself.
    assert quantizer.cleared[:3] == ("b10.c", "b10", "p1")


def test_no_output_drops_only_the_output():
    full = len(qdq_nodes(_quantize(Chain)[1]))
    _, converted, *_ = _quantize(Chain, no_output=["fc"])
    assert len(qdq_nodes(converted)) == full - 2
    assert [w.op for w in _own_weight_nodes(converted, ["fc"])] == ["call_function"]
    last = next(iter(n for n in converted.graph.nodes if n.op == "output"))
    assert str(last.args[0][0].target) == "aten.linear.default"


def test_no_output_of_a_block_keeps_what_is_inside_quantized():
    _, converted, *_ = _quantize(Chain, no_output=["b1"])
    assert [w.op for w in _own_weight_nodes(converted, ["b1"])] == ["call_function"]
    inner = [n for n in converted.graph.nodes if module_path(n) == "b1.c"]
    assert any("quantize_per_tensor" in str(u.target) for n in inner for u in n.users)


def test_skip_and_no_output_may_name_the_same_module():
    both = _quantize(Chain, skip=["fc"], no_output=["fc"])[2]
    torch.testing.assert_close(both, _quantize(Chain, skip=["fc"])[2], rtol=0, atol=0)


def test_one_quantizer_serves_two_graphs():
    torch.manual_seed(0)
    exported = export_module(Chain().eval(), (torch.randn(2, 3, 12, 12),))
    quantizer = SkipQuantizer(get_xnnpack_quantizer()[0], skip=["fc"])
    graphs = []
    for _ in range(2):
        prepared = prepare_pt2e(exported, quantizer)
        prepared(torch.ones(2, 3, 12, 12))
        graphs.append(str(convert_pt2e(prepared).graph))
    assert graphs[0] == graphs[1]
    assert not any(ANNOTATION_KEY in n.meta for n in exported.graph.nodes)


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"skip": ["b11"]}, ValueError, "under module 'b11'; near names: .*b10"),
        ({"skip": ["zzz"]}, ValueError, "under module 'zzz'; modules: stem, stem.0"),
        ({"skip": ["b1."]}, ValueError, "near names: b1"),
        ({"skip": [""]}, ValueError, "under module ''"),
        ({"no_output": ["b1.conv"]}, ValueError, "near names: .*b1.c"),
        ({"no_output": ["drop"]}, ValueError, "the output of module 'drop' is not quantized"),
        ({"skip": "fc"}, TypeError, r"skip is a sequence of names; write skip=\['fc'\]"),
        ({"no_output": "fc"}, TypeError, r"write no_output=\['fc'\]"),
    ],
)
def test_wrong_names_say_what_is_near(kwargs, error, text):
    with pytest.raises(error, match=text):
        _quantize(Chain, **kwargs)


def test_a_folded_batch_norm_is_named_as_such():
    def net():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

    with pytest.raises(ValueError, match=r"module '1' owns no node .* batch norm is folded"):
        _quantize(net, skip=["1"])


def test_the_output_of_a_fused_convolution_is_its_activations():
    def net():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))

    with pytest.raises(ValueError, match="fused with 1, name that"):
        _quantize(net, no_output=["0"])


class SharesAcrossTheNet(Quantizer):
    """Every linear shares the first one's output observer, and derives its bias: long chains."""

    def annotate(self, model):
        act = QuantizationSpec(
            torch.int8, HistogramObserver.with_args(eps=2**-12), -128, 127, torch.per_tensor_affine
        )
        weight = QuantizationSpec(
            torch.int8,
            PerChannelMinMaxObserver.with_args(eps=2**-12),
            -127,
            127,
            torch.per_channel_symmetric,
            0,
        )
        before = None
        for n in model.graph.nodes:
            if str(n.target) != "aten.linear.default":
                continue
            x, w, b = n.args

            def qparams(observers):
                (a, _), (s, _) = (o.calculate_qparams() for o in observers)
                return a * s, torch.zeros_like(s, dtype=torch.int32)

            bias = DerivedQuantizationSpec(
                [(x, n), (w, n)],
                qparams,
                torch.int32,
                -(2**31),
                2**31 - 1,
                torch.per_channel_symmetric,
                0,
            )
            shared = act if before is None else SharedQuantizationSpec(before)
            n.meta[ANNOTATION_KEY] = QuantizationAnnotation(
                {x: act, w: weight, b: bias}, shared, _annotated=True
            )
            before = n
        return model

    def validate(self, model):
        pass


@pytest.mark.parametrize(("skip", "left"), [("0", 0), ("1", 1), ("2", 2), ("3", 3)])
def test_the_cascade_follows_shared_specs_across_any_distance(skip, left):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)]).eval()
    quantizer = SkipQuantizer(SharesAcrossTheNet(), skip=[skip])
    prepared = prepare_pt2e(export_module(model, (torch.randn(2, 4),)), quantizer)
    assert quantizer.cleared == tuple(str(i) for i in range(left, 4))
    prepared(torch.randn(8, 4))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((get_xnnpack_quantizer,), "inner is a quantizer, got function"),
        (((None, None),), r"got tuple; .* returns \(quantizer, config\)"),
    ],
)
def test_what_is_no_quantizer_is_refused(args, text):
    with pytest.raises(TypeError, match=text):
        SkipQuantizer(*args)


def test_names_are_strings_in_any_iterable():
    quantizer, _ = get_xnnpack_quantizer()
    assert SkipQuantizer(quantizer, skip=(n for n in ["fc"]), no_output={"b1"}).skip == ("fc",)
    with pytest.raises(TypeError, match=r"skip takes module paths, as strings; got \[0\]"):
        SkipQuantizer(quantizer, skip=[0])
