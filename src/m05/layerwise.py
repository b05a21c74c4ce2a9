"""Layer-wise SQNR: the error at each position of the graph."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from m05.graph_utils import module_path, qdq_nodes, sqnr, stack_path
from m05.pt2e import extract_results_from_loggers, prepare_for_propagation_comparison, quiet

__all__ = ["LayerRow", "layerwise_sqnr"]


class LayerRow(NamedTuple):
    """One position of the comparison: `module` path (`"(top)"` for none) and `sqnr` in dB.

    >>> module, db = LayerRow("fc", 33.5)
    >>> module
    'fc'
    """

    module: str
    sqnr: float


def layerwise_sqnr(
    ref_gm: GraphModule,
    quant_gm: GraphModule,
    x: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
) -> list[LayerRow]:
    """SQNR at each position where both graphs compute the same value, from input to output.

    Both graphs run on `x`, each from its own input on: the error at a position is the error that
    has *accumulated* up to there, with the quantization of the position's own output.

    The right reference is a copy of the prepared graph: batch norm is folded there as it is in
    the converted graph, and observers only watch. So every operation has its twin.

    >>> import copy
    >>> from m05.data import calibration_batches, trained_tiny_net
    >>> from m05.models import example_inputs
    >>> from m05.pt2e import convert_pt2e, export_module, get_xnnpack_quantizer, prepare_pt2e
    >>> quantizer, _ = get_xnnpack_quantizer()
    >>> prepared = prepare_pt2e(export_module(trained_tiny_net(), example_inputs()), quantizer)
    >>> reference = copy.deepcopy(prepared)
    >>> for batch in calibration_batches(256, seed=1):
    ...     _ = prepared(*batch)
    >>> (x,) = next(calibration_batches(64, seed=9))
    >>> rows = layerwise_sqnr(reference, convert_pt2e(prepared), x)
    >>> [row.module for row in rows][-3:]
    ['gap', '(top)', 'fc']

    Args:
        ref_gm: The reference, usually the prepared graph copied before calibration. A reference
            whose batch norm is not folded gives a warning: its convolutions are no twins.
        quant_gm: The converted graph, from the same export.
        x: The input: one tensor, or a tuple of positional inputs. Each graph gets its own copy.
        kwargs: Keyword inputs, for a model that was exported with them.

    Returns:
        `(module, sqnr)` rows in graph order. A module that is called twice has two rows.
        Positions whose value is not a floating-point tensor (sizes, indices, tuples before their
        items are taken) have no SQNR and no row.

    Raises:
        TypeError: An argument is no graph module, or `x` is neither a tensor nor a tuple.
        ValueError: The graphs are swapped; no position matches, because they come from different
            exports; none holds values (an empty batch); or the values at a position cannot be
            compared (the message names the module).

    Source: torchao's numeric debugger, `torchao/quantization/pt2e/_numeric_debugger.py`, which
    matches positions by the node of the exported program they come from.
    """
    _check_graphs(ref_gm, quant_gm)
    if not isinstance(x, torch.Tensor | tuple):
        raise TypeError(f"x is a tensor or a tuple of positional inputs, got {type(x).__name__}.")
    args = x if isinstance(x, tuple) else (x,)
    reference, quantized = (_record(gm, args, kwargs or {}) for gm in (ref_gm, quant_gm))
    matched = [key for key in reference if key in quantized]
    if not matched:
        raise ValueError(
            f"none of the {len(reference)} reference positions matches one of the "
            f"{len(quantized)} quantized positions: the graphs come from different exports. Make "
            "the reference with copy.deepcopy(prepared), before convert_pt2e(prepared)."
        )
    rows = [
        LayerRow(module or "(top)", _sqnr_at(module, node, value, quantized[key].value))
        for key, (module, node, value) in ((key, reference[key]) for key in matched)
        if _comparable(value) and _comparable(quantized[key].value)
    ]
    if not rows:
        raise ValueError(
            f"{len(matched)} positions match, and none holds floating-point values; the batch is "
            "empty, or the graph computes no floating-point tensor."
        )
    _warn_if_unfolded(ref_gm, quant_gm)
    return rows


def _check_graphs(ref_gm: GraphModule, quant_gm: GraphModule) -> None:
    for name, graph in (("ref_gm", ref_gm), ("quant_gm", quant_gm)):
        if not isinstance(graph, GraphModule):
            raise TypeError(f"{name} is a graph module, got {type(graph).__name__}; export first.")
    if qdq_nodes(ref_gm) and not qdq_nodes(quant_gm):
        raise ValueError(
            "ref_gm has quantize and dequantize nodes and quant_gm has none: the reference comes "
            "first, layerwise_sqnr(reference, converted, x)."
        )


def _warn_if_unfolded(ref_gm: GraphModule, quant_gm: GraphModule) -> None:
    unfolded = [n for n in ref_gm.graph.nodes if "batch_norm" in str(n.target)]
    folded = not any("batch_norm" in str(n.target) for n in quant_gm.graph.nodes)
    if unfolded and folded:
        warnings.warn(
            f"the reference still has {len(unfolded)} batch norms, the first in module "
            f"{module_path(unfolded[0])!r}, and the quantized graph has folded them: the rows of "
            "the convolutions before them compare different values. Use a copy of the prepared "
            "graph as the reference.",
            stacklevel=3,
        )


class _Recorded(NamedTuple):
    module: str
    node: str
    value: object


def _record(
    graph_module: GraphModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[object, _Recorded]:
    with quiet(), torch.no_grad():
        logged = prepare_for_propagation_comparison(graph_module)
        loggers = [m for m in logged.children() if hasattr(m, "debug_info")]
        for logger in loggers:
            logger.register_forward_hook(_keep_a_copy)
        # A copy each: a graph may write to its input in place.
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, dict(kwargs)))
        logged(*args, **kwargs)
    paths: dict[object, str] = {}
    for logger in loggers:
        # Observers carry the operation's debug info, but no module stack of their own.
        if logger.nn_module_stack is not None:
            paths.setdefault(logger.debug_info, stack_path(logger.nn_module_stack))
    recorded = {
        info: _Recorded(paths.get(info, ""), str(node), stats[-1])
        for info, (node, _, stats) in extract_results_from_loggers(logged).items()
    }
    for logger in loggers:
        logger.stats.clear()  # graph modules are reference cycles, and would keep every value
    return recorded


def _keep_a_copy(logger: Any, _args: object, value: object) -> None:
    # The logger keeps an alias (`_detach`): an in-place operation behind it overwrites the value.
    if isinstance(value, torch.Tensor):
        logger.stats[-1] = value.detach().clone()


def _comparable(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0


def _sqnr_at(module: str, node: str, ref: Any, test: Any) -> float:
    if ref.shape == test.shape:
        # An attention mask is -inf at the same places on both sides: no signal and no error.
        masked = torch.isinf(ref) & (ref == test)
        if masked.all():
            return math.inf
        if masked.any():
            ref, test = ref[~masked], test[~masked]
    try:
        return sqnr(ref, test)
    except ValueError as error:
        raise ValueError(f"at node {node!r} of module {module or '(top)'!r}: {error}") from None
