"""One door to torchao's PT2E flow: export, prepare, calibrate, convert, and its numeric debugger.

Differences from torchao: nothing mutates its argument, and this is the only module that knows
where the XNNPACK quantizer lives.
"""

import contextlib
import copy
import importlib
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from m05._copying import copy_graph
from m05._export import export_module
from m05._folding import check_folding
from m05._noise import quiet
from m05.graph_utils import qdq_nodes

with quiet():
    from torchao.quantization.pt2e import (
        compare_results,
        extract_results_from_loggers,
        prepare_for_propagation_comparison,
        quantize_pt2e,
    )
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, Quantizer
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

__all__ = [
    "ANNOTATION_KEY",
    "QuantizationAnnotation",
    "Quantizer",
    "compare_results",
    "convert_pt2e",
    "export_module",
    "extract_results_from_loggers",
    "get_xnnpack_quantizer",
    "prepare_for_propagation_comparison",
    "prepare_pt2e",
    "quiet",
]

ANNOTATION_KEY: str = Q_ANNOTATION_KEY

# ExecuTorch's is the maintained one; torchao 0.18 keeps a copy for its own tests.
_XNNPACK_MODULES = (
    "executorch.backends.xnnpack.quantizer.xnnpack_quantizer",
    "torchao.testing.pt2e._xnnpack_quantizer",
)


def prepare_pt2e(model: GraphModule, quantizer: Quantizer) -> GraphModule:
    """Fold batch norm, annotate and insert observers: torchao's prepare, on a copy of the graph.

    >>> from m05.models import TinyConvNet, example_inputs
    >>> exported = export_module(TinyConvNet().eval(), example_inputs())
    >>> prepared = prepare_pt2e(exported, get_xnnpack_quantizer()[0])
    >>> sum(n.name.startswith("batch_norm") for n in prepared.graph.nodes)
    0

    Args:
        model: A graph from `export_module`.
        quantizer: Says what is quantized; for example from `get_xnnpack_quantizer`.

    Returns:
        A prepared graph module. Run calibration batches through it, then `convert_pt2e`.

    Raises:
        TypeError: `model` is not an exported graph, or `quantizer` is no quantizer.
        ValueError: The graph is prepared or converted already; or folding batch norm would change
            what the graph computes, because a convolution or its weight has another use.
        KeyError, RuntimeError: What torchao's `prepare_pt2e` raises for a graph it cannot handle.

    Source: `torchao.quantization.pt2e.quantize_pt2e.prepare_pt2e`.
    """
    _check_graph(model, "prepare_pt2e")
    if not isinstance(quantizer, Quantizer):
        raise TypeError(
            f"quantizer is a Quantizer, got {type(quantizer).__name__}; get_xnnpack_quantizer() "
            "returns (quantizer, config), of which it is the first."
        )
    if any(_is_observer(module) for module in model.modules()) or qdq_nodes(model):
        raise ValueError(
            "the graph is prepared or converted already; prepare the exported graph instead."
        )
    check_folding(model)
    with quiet():
        try:
            return quantize_pt2e.prepare_pt2e(copy.deepcopy(model), quantizer)
        except ValueError as error:
            if "get_attr" in str(error):  # torchao's _get_tensor_constant_from_node
                error.add_note(
                    "A weight is computed in the graph (weight normalization or another "
                    "parametrization): see m05.weight_norm.strip_weight_norm."
                )
            raise


def convert_pt2e(model: GraphModule, *, fold_quantize: bool = True) -> GraphModule:
    """Turn a calibrated graph into a q/dq graph: torchao's convert, on a copy of the graph.

    >>> import torch
    >>> gm = export_module(torch.nn.Linear(4, 3).eval(), (torch.zeros(2, 4),))
    >>> prepared = prepare_pt2e(gm, get_xnnpack_quantizer()[0])
    >>> _ = prepared(torch.randn(8, 4))  # calibration
    >>> converted = convert_pt2e(prepared)
    >>> converted(torch.randn(5, 4)).shape
    torch.Size([5, 3])

    Args:
        model: A prepared graph that has seen calibration data; it can go on calibrating.
        fold_quantize: Fold the quantize of a weight into an integer constant.

    Returns:
        A graph module with quantize and dequantize nodes.

    Raises:
        TypeError: `model` is not a graph.
        ValueError: An observer saw no data, where torchao would go on with scale 1 and zero point
            0; or the graph is converted already.

    Source: `torchao.quantization.pt2e.quantize_pt2e.convert_pt2e`.
    """
    _check_graph(model, "convert_pt2e")
    if qdq_nodes(model):
        raise ValueError("the graph is converted already; convert the prepared graph once.")
    blind = [name for name, module in model.named_modules() if _saw_nothing(module)]
    if blind:
        raise ValueError(
            f"{len(blind)} observers saw no data, the first is {blind[0]!r}: run at least one "
            "non-empty calibration batch through the prepared graph before convert_pt2e."
        )
    with quiet():
        return quantize_pt2e.convert_pt2e(copy_graph(model), fold_quantize=fold_quantize)


def _check_graph(model: object, caller: str) -> None:
    if not isinstance(model, GraphModule):
        raise TypeError(
            f"{caller} takes a graph module, got {type(model).__name__}; "
            "export the model first with export_module(model, example_inputs)."
        )


def _is_observer(module: nn.Module) -> bool:
    return hasattr(module, "calculate_qparams")


def _saw_nothing(module: nn.Module) -> bool:
    """An observer whose range is still the empty one it was made with."""
    low, high = getattr(module, "min_val", None), getattr(module, "max_val", None)
    if not isinstance(low, torch.Tensor) or not isinstance(high, torch.Tensor):
        return False
    return bool((torch.isposinf(low) & torch.isneginf(high)).all())  # true when empty, too


def get_xnnpack_quantizer(is_per_channel: bool = True) -> tuple[Quantizer, Any]:
    """The XNNPACK quantizer with its symmetric int8 configuration set for the whole model.

    ExecuTorch's public quantizer is used when `executorch` is installed (`pip install
    "m05[executorch]"`), otherwise torchao 0.18's copy of it in `torchao.testing.pt2e`;
    `type(quantizer).__module__` says which one it is. Both give the same graph for the chapter's
    net. ExecuTorch's knows a few more operations: a dropout that is left in the graph, for
    example, shares its input's observer.

    >>> quantizer, config = get_xnnpack_quantizer()
    >>> config.weight.qscheme
    torch.per_channel_symmetric
    >>> type(quantizer).__name__
    'XNNPACKQuantizer'

    Args:
        is_per_channel: One scale for each output channel of a weight, or one for the tensor.

    Returns:
        The quantizer and its configuration, static int8 with histogram observers.

    Raises:
        ImportError: Neither package offers the quantizer.

    Source: <https://docs.pytorch.org/executorch/stable/backends/xnnpack/xnnpack-quantization.html>.
    """
    with quiet():
        module = _first_importable(_XNNPACK_MODULES)
        config = module.get_symmetric_quantization_config(is_per_channel=is_per_channel)
        return module.XNNPACKQuantizer().set_global(config), config


def _first_importable(names: tuple[str, ...]) -> Any:
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ImportError(
        f"no XNNPACKQuantizer in {' or '.join(names)}; install executorch, or torchao 0.18."
    )
