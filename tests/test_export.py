"""Models of every kind of forward: positional, variadic, keyword, nested, without tensors first."""

import pytest
import torch
from torch import nn

from m05.pt2e import export_module


class Variadic(nn.Module):
    def forward(self, *xs, shift):
        return sum(xs) + shift


class AnyKeyword(nn.Module):
    def forward(self, x, **named):
        return x + named["shift"]


class Mixed(nn.Module):
    def forward(self, x, *rest, gain=None):
        return (x + rest[0]) * (1 if gain is None else gain)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)

    def forward(self, ids, scale=None):
        return self.embed(ids).sum(1) * (scale or 1.0)


@pytest.mark.parametrize("example", [1, 3])
@pytest.mark.parametrize(
    ("model", "args", "kwargs"),
    [
        (Variadic(), ((4,), (4,)), {"shift": (4,)}),
        (Mixed(), ((4,), (4,)), {}),
        (Mixed(), ((4,), (4,)), {"gain": (4,)}),
    ],
)
def test_variadic_and_keyword_inputs(model, args, kwargs, example):
    def inputs(batch):
        g = torch.Generator().manual_seed(batch)
        make = [torch.randn(batch, *shape, generator=g) for shape in (*args, *kwargs.values())]
        return tuple(make[: len(args)]), dict(zip(kwargs, make[len(args) :], strict=True))

    x, kw = inputs(example)
    gm = export_module(model.eval(), x, kw)
    for batch in (1, 5):
        x, kw = inputs(batch)
        torch.testing.assert_close(gm(*x, **kw), model(*x, **kw))


def test_integer_inputs_and_defaults():
    model = Tokens().eval()
    gm = export_module(model, (torch.zeros(1, 3, dtype=torch.long),))
    ids = torch.arange(6).reshape(2, 3)
    torch.testing.assert_close(gm(ids), model(ids))


def test_what_does_not_fit_is_named():
    with pytest.raises(TypeError, match=r"do not fit Mixed.forward: .*'other'"):
        export_module(Mixed().eval(), (torch.ones(2, 4),), {"other": torch.ones(2)})
    with pytest.raises(ValueError, match="example batch is empty"):
        export_module(Mixed().eval(), (torch.ones(0, 4), torch.ones(0, 4)))
    x = torch.ones(2, 4)
    with pytest.raises(ValueError, match=r"AnyKeyword.forward takes \*\*named"):
        export_module(AnyKeyword().eval(), (x,), {"shift": x})
    fixed = export_module(AnyKeyword().eval(), (x,), {"shift": x}, dynamic_batch=False)
    assert torch.equal(fixed(x, shift=x), x + x)
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(2, 2),))
    with pytest.raises(TypeError, match=r"got ExportedProgram; take its .module\(\)"):
        export_module(program, (torch.ones(2, 2),))
