"""`sqnr`, and small questions to an FX graph."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch.fx import GraphModule, Node

__all__ = ["is_under", "module_path", "module_paths", "qdq_nodes", "sqnr", "stack_path"]


def sqnr(ref: torch.Tensor, test: torch.Tensor) -> float:
    """Signal-to-quantization-noise ratio of `test` against the signal `ref`, in dB.

    SQNR = 10·log10( mean(ref²) / mean((ref − test)²) ). Every 20 dB is a factor of ten in
    root-mean-square (RMS) error. The order matters: the signal is always `ref`. (torchao's
    `compare_results` puts the quantized tensor in the numerator, so its figures differ
    slightly: `torchao/quantization/pt2e/_numeric_debugger.py`, `QuantizationComparisonResult`.)

    >>> import torch
    >>> round(sqnr(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.5])), 6)
    20.0
    >>> sqnr(torch.zeros(3), torch.zeros(3))  # no error at all, whatever the signal
    inf
    >>> sqnr(torch.zeros(3), torch.ones(3))  # an error, and no signal
    -inf

    Args:
        ref: The reference, a real floating-point tensor of any shape.
        test: The tensor under test, of the same shape; its dtype and device may differ.

    Returns:
        dB, accumulated in float64. Equal tensors give `inf`, also when both are zero; a zero
        reference with an error gives `-inf`; never `nan`.

    Raises:
        TypeError: An argument is no tensor, or is integer, bool, complex or sparse.
        ValueError: The shapes differ, the tensors are empty, or a value is not finite.

    Source: the definition used in quantization, for example Jacob et al.,
    <https://arxiv.org/abs/1712.05877>, for the noise, and `torch.ao.ns.fx.utils.compute_sqnr`.
    """
    signal, other = _checked(ref, "ref"), _checked(test, "test")
    if signal.shape != other.shape:
        raise ValueError(
            f"sqnr compares tensors of equal shape, got ref {tuple(signal.shape)} and "
            f"test {tuple(other.shape)}; select or reshape before comparing."
        )
    if signal.numel() == 0:
        raise ValueError(
            f"sqnr got empty tensors of shape {tuple(signal.shape)}; there is nothing to compare. "
            "Check that the data loader yields samples."
        )
    error = signal - other
    halved = 0.0
    if not torch.isfinite(error).all():  # two float64 values near the limit, of opposite sign
        error, halved = signal / 2 - other / 2, 2 * math.log10(2)
    noise = _log10_energy(error) + halved
    if noise == -math.inf:
        return math.inf
    return 10 * (_log10_energy(signal) - noise)


def _checked(value: torch.Tensor, name: str) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"sqnr takes tensors, got {type(value).__name__} for {name}; of several outputs "
            "select one, other arrays convert with torch.as_tensor."
        )
    if value.layout is not torch.strided or value.is_quantized or value.is_meta:
        kind = "quantized" if value.is_quantized else "meta" if value.is_meta else value.layout
        raise TypeError(f"sqnr got a {kind} tensor for {name}; make it a plain dense one first.")
    if value.is_complex():
        raise TypeError(f"sqnr got {value.dtype} for {name}; compare torch.view_as_real of both.")
    if not value.is_floating_point():
        raise TypeError(
            f"sqnr got {value.dtype} for {name}; integers carry no scale. Dequantize, or "
            "convert with .to(torch.float32) when the integers are the values themselves."
        )
    # float64 on the CPU: some accelerators have no float64.
    wide = value.detach().cpu().to(torch.float64)
    finite = torch.isfinite(wide)
    if not finite.all():
        raise ValueError(
            f"sqnr got {int((~finite).sum())} non-finite of {wide.numel()} values in {name}; "
            "look for the first layer that makes them."
        )
    return wide


def _log10_energy(values: torch.Tensor) -> float:
    """log10 of the sum of squares; scaled, so that the squares neither over- nor underflow."""
    peak = values.abs().max().item()
    if peak == 0:
        return -math.inf
    return 2 * math.log10(peak) + math.log10((values / peak).square().sum().item())


def qdq_nodes(graph_module: GraphModule) -> list[Node]:
    """The quantize and dequantize nodes of a converted graph, in graph order.

    The count is a quick check of what is quantized: convert folds the quantize of a weight into
    an int8 constant, so a weight adds one node (its dequantize), an activation at least two.

    >>> from m05.data import calibration_batches, trained_tiny_net
    >>> from m05.models import example_inputs
    >>> from m05.pt2e import convert_pt2e, export_module, get_xnnpack_quantizer, prepare_pt2e
    >>> quantizer, _ = get_xnnpack_quantizer()
    >>> prepared = prepare_pt2e(export_module(trained_tiny_net(), example_inputs()), quantizer)
    >>> for batch in calibration_batches(64, seed=1):
    ...     _ = prepared(*batch)
    >>> len(qdq_nodes(convert_pt2e(prepared)))
    28

    Args:
        graph_module: A graph after convert; other graphs simply have none.

    Returns:
        Nodes whose operator quantizes or dequantizes, those in nested graphs included.

    Source: the operators are declared in `torch/ao/quantization/fx/_decomposed.py` and, for
    torchao's own, in `torchao/quantization/quant_primitives.py`.
    """
    graphs = (m.graph for m in graph_module.modules() if isinstance(m, GraphModule))
    return [n for graph in graphs for n in graph.nodes if _is_qdq(n)]


def _is_qdq(node: Node) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    # Namespaces: quantized_decomposed (per tensor, per channel) and torchao (affine, blocks).
    return target.namespace in {"quantized_decomposed", "torchao"} and (
        target._opname.startswith(("quantize_", "dequantize_"))
    )


def module_path(node: Node) -> str:
    """The path of the module that a node comes from, as in `model.named_modules()`.

    >>> from m05.data import trained_tiny_net
    >>> from m05.models import example_inputs
    >>> from m05.pt2e import export_module
    >>> gm = export_module(trained_tiny_net(), example_inputs())
    >>> [module_path(n) for n in gm.graph.nodes if n.name in ("conv2d_1", "relu_2", "flatten")]
    ['block.conv1', 'block.relu', '']

    Args:
        node: A node of an exported graph (`nn_module_stack` in its meta).

    Returns:
        The path; `""` for the top module, and for nodes that stand in no module.

    Source: <https://docs.pytorch.org/docs/stable/export.html> (`nn_module_stack`).
    """
    return stack_path(node.meta.get("nn_module_stack"))


def stack_path(stack: Mapping[str, tuple[str, object]] | None) -> str:
    """The innermost module path of an `nn_module_stack`, `""` without one.

    >>> stack_path({"L__self__block.relu@1": ("block.relu", "torch.nn.ReLU")})
    'block.relu'

    Args:
        stack: `node.meta["nn_module_stack"]`, outermost module first.

    Returns:
        The path, as in `model.named_modules()`.
    """
    if not stack:
        return ""
    path, _type = list(stack.values())[-1]
    return str(path).removeprefix("L['self']").removeprefix(".")


def module_paths(graph_module: GraphModule) -> list[str]:
    """Every module path that owns a node, parents included, in graph order.

    >>> from m05.data import trained_tiny_net
    >>> from m05.models import example_inputs
    >>> from m05.pt2e import export_module
    >>> module_paths(export_module(trained_tiny_net(), example_inputs()))[:4]
    ['stem', 'stem.conv', 'stem.bn', 'stem.relu']

    Args:
        graph_module: An exported, prepared or converted graph.

    Returns:
        Paths without repetition; the top module's `""` is left out.
    """
    seen: dict[str, None] = {}
    for node in graph_module.graph.nodes:
        parts = module_path(node).split(".")
        for depth in range(1, len(parts) + 1):
            seen.setdefault(".".join(parts[:depth]))
    seen.pop("", None)
    return list(seen)


def is_under(path: str, names: Iterable[str]) -> bool:
    """Whether a module path is one of `names` or lies inside one of them.

    >>> is_under("block.conv1", ["block"]), is_under("block2.conv1", ["block"])
    (True, False)

    Args:
        path: A module path, as `module_path` gives it.
        names: Module paths.

    Returns:
        True when it is; `b1` does not lie in `b`.
    """
    return any(path == name or path.startswith(f"{name}.") for name in names)
