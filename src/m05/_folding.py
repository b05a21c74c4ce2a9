"""Where folding batch norm would change what a graph computes."""

from typing import Any

import torch
from torch.fx import GraphModule, Node

from m05.graph_utils import module_path

__all__ = ["check_folding"]

_BATCH_NORMS = (
    torch.ops.aten.batch_norm.default,
    torch.ops.aten._native_batch_norm_legit_no_training.default,
)
_LAYERS = ("conv", "linear")


def check_folding(graph_module: GraphModule) -> None:
    """Raise where a batch norm cannot be folded into the layer before it without harm.

    torchao's prepare folds every batch norm that follows a convolution, and does not look whether
    the convolution's output, or its weight, has another use: that use then gets the folded values
    (`torchao/quantization/pt2e/utils.py`, `_fuse_conv_bn_`).

    Args:
        graph_module: An exported graph.

    Raises:
        ValueError: Naming the batch norm, the layer and the other use.
    """
    pairs = [
        (norm, norm.args[0])
        for norm in graph_module.graph.nodes
        if norm.target in _BATCH_NORMS and _is_layer(norm.args[0])
    ]
    norms_of_weight: dict[int, Node] = {}
    for norm, layer in pairs:
        for user in layer.users:
            if user is not norm:
                raise _error(norm, layer, f"its output also goes to {_where(user)}")
        weight = _constant(graph_module, layer.args[1])
        if weight is None:
            continue
        first = norms_of_weight.setdefault(id(weight), norm)
        if first.args[1:5] != norm.args[1:5]:
            raise _error(norm, layer, f"its weight is also folded with {_where(first)}")
    folded = {layer for _, layer in pairs}
    for layer in graph_module.graph.nodes:
        if _is_layer(layer) and layer not in folded:
            first_norm = norms_of_weight.get(id(_constant(graph_module, layer.args[1])))
            if first_norm is not None:
                raise _error(
                    first_norm, first_norm.args[0], f"its weight also serves {_where(layer)}"
                )


def _is_layer(node: Any) -> bool:
    return (
        isinstance(node, Node)
        and any(name in str(node.target) for name in _LAYERS)
        and (node.op == "call_function")
    )


def _constant(graph_module: GraphModule, node: Any) -> Any:
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    parent, _, name = str(node.target).rpartition(".")
    return getattr(graph_module.get_submodule(parent), name, None)


def _where(node: Node) -> str:
    return f"{node.name} (module {module_path(node) or '(top)'!r})"


def _error(norm: Node, layer: Any, other: str) -> ValueError:
    return ValueError(
        f"batch norm {_where(norm)} cannot be folded into {_where(layer)}: {other}, which would "
        "get the folded values. Give each use a layer of its own before export, for example with "
        "copy.deepcopy."
    )
