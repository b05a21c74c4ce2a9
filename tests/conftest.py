"""Nets and pipelines that several test modules use; each made once, and never mutated."""

import copy
import sys
from collections.abc import Sequence
from typing import NamedTuple

import pytest
import torch
from helpers import EXECUTORCH
from torch.fx import GraphModule

from m05.data import calibration_batches, make_loader, trained_tiny_net
from m05.models import TinyConvNet, example_inputs
from m05.pt2e import convert_pt2e, export_module, get_xnnpack_quantizer, prepare_pt2e, quiet
from m05.skip import SkipQuantizer


@pytest.fixture(autouse=True, scope="session")
def without_executorch():
    """torchao's copy of the quantizer, which needs no extra; `test_pt2e.py` compares the two.

    ExecuTorch's traces its patterns anew at every annotate, which takes over a second.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, EXECUTORCH, None)
        yield


@pytest.fixture
def with_executorch(monkeypatch):
    monkeypatch.delitem(sys.modules, EXECUTORCH)
    with quiet():
        pytest.importorskip(EXECUTORCH, reason="the extra m05[executorch] is not installed")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Sums in one order: figures do not move with the number of cores."""
    torch.set_num_threads(1)


class Quantized(NamedTuple):
    reference: GraphModule
    converted: GraphModule
    quantizer: SkipQuantizer


class TinyPipeline:
    """The pages' pipeline on the shipped net, with each exclusion computed once."""

    def __init__(self) -> None:
        self.model: TinyConvNet = trained_tiny_net()
        self.exported = export_module(self.model, example_inputs())
        self.loader = make_loader(1024, seed=2)
        self.x = torch.cat([x for x, _ in self.loader])
        with torch.no_grad():
            self.y_float = self.model(self.x)
        self._done: dict[tuple[tuple[str, ...], tuple[str, ...]], Quantized] = {}

    def quantize(self, skip: Sequence[str] = (), no_output: Sequence[str] = ()) -> Quantized:
        key = (tuple(skip), tuple(no_output))
        if key not in self._done:
            quantizer = SkipQuantizer(get_xnnpack_quantizer()[0], skip=skip, no_output=no_output)
            prepared = prepare_pt2e(self.exported, quantizer)
            reference = copy.deepcopy(prepared)
            for batch in calibration_batches(256, seed=15):
                prepared(*batch)
            self._done[key] = Quantized(reference, convert_pt2e(prepared), quantizer)
        return self._done[key]


@pytest.fixture(scope="session")
def tiny(one_thread, without_executorch) -> TinyPipeline:
    return TinyPipeline()
