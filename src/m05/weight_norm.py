"""Weights that the graph computes from other parameters, turned into plain ones."""

import copy
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from m05._noise import quiet

__all__ = ["strip_weight_norm"]


def strip_weight_norm(graph_module: GraphModule) -> GraphModule:
    """Replace every weight normalization in an exported graph by the weight it computes.

    Weight normalization is W = g·v/‖v‖. After export the convolution's weight is the output of
    `aten._weight_norm`, and folding batch norm into it fails, because it reads a constant. Here
    the constant takes the place of the computation, and of the parameters g and v.

    >>> import torch
    >>> from m05.pt2e import export_module
    >>> conv = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(2, 4, 3))
    >>> gm = export_module(torch.nn.Sequential(conv).eval(), (torch.zeros(2, 2, 8),))
    >>> sorted(dict(strip_weight_norm(gm).named_parameters()))
    ['0.bias', '0.weight']

    Args:
        graph_module: A graph from `export_module`, before prepare.

    Returns:
        A new graph module; the argument is untouched. Without weight normalization it is an
        equal copy.

    Raises:
        ValueError: g or v is itself computed in the graph, so that there is no constant to take.

    Source: Salimans and Kingma, <https://arxiv.org/abs/1602.07868>, eq. 2.
    """
    with quiet():
        stripped = copy.deepcopy(graph_module)
    nodes = [n for n in stripped.graph.nodes if n.target in _WEIGHT_NORM_OPS]
    for node in nodes:
        _replace_by_constant(stripped, node)
    if nodes:
        stripped.graph.lint()
        stripped.recompile()
    return stripped


_WEIGHT_NORM_OPS = (torch.ops.aten._weight_norm.default,)


def _replace_by_constant(gm: GraphModule, node: Node) -> None:
    sources = [arg for arg in node.args if isinstance(arg, Node)]
    if any(source.op != "get_attr" for source in sources):
        raise ValueError(
            f"weight normalization {node.name!r} takes {[s.name for s in sources]}, which are not "
            "all parameters; bake the inner parametrization into the model before export."
        )
    paths = [str(source.target) for source in sources]
    with torch.no_grad():
        weight = torch._weight_norm(*(_attribute(gm, p) for p in paths), *node.args[2:])
    path = _free_path(gm, _weight_path(paths[0]))
    parent, _, name = path.rpartition(".")
    gm.get_submodule(parent).register_parameter(
        name, nn.Parameter(weight, requires_grad=_attribute(gm, paths[0]).requires_grad)
    )
    with gm.graph.inserting_before(node):
        constant = gm.graph.get_attr(path)
    constant.meta = {k: v for k, v in node.meta.items() if k == "val"}
    node.replace_all_uses_with(constant)
    gm.graph.erase_node(node)
    for source, source_path in zip(sources, paths, strict=True):
        if not source.users:
            gm.graph.erase_node(source)
        if not any(n.op == "get_attr" and n.target == source_path for n in gm.graph.nodes):
            _delete(gm, source_path)


def _weight_path(v_path: str) -> str:
    """`conv.weight` from `conv.parametrizations.weight.original1`, or from `conv.weight_v`."""
    if ".parametrizations." in f".{v_path}":
        owner, _, rest = f".{v_path}".partition(".parametrizations.")
        return f"{owner}.{rest.rpartition('.')[0]}".lstrip(".")
    return v_path.removesuffix("_v")


def _free_path(gm: GraphModule, path: str) -> str:
    parent, _, name = path.rpartition(".")
    owner, free, count = gm.get_submodule(parent), name, 0
    while hasattr(owner, free):  # two normalizations of one pair of parameters
        count += 1
        free = f"{name}_{count}"
    return f"{parent}.{free}".lstrip(".")


def _attribute(gm: GraphModule, path: str) -> Any:
    parent, _, name = path.rpartition(".")
    return getattr(gm.get_submodule(parent), name)


def _delete(gm: GraphModule, path: str) -> None:
    parent, _, name = path.rpartition(".")
    delattr(gm.get_submodule(parent), name)
    # Leave no empty holder (`parametrizations.weight`) behind.
    while parent:
        above, _, last = parent.rpartition(".")
        module = gm.get_submodule(parent)
        if any(True for _ in module.parameters()) or any(True for _ in module.buffers()):
            return
        if any(str(n.target).startswith(f"{parent}.") for n in gm.graph.nodes):
            return
        delattr(gm.get_submodule(above), last)
        parent = above
