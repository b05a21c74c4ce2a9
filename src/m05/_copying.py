"""A copy of a prepared graph that can still be converted."""

import copy
from dataclasses import replace
from typing import Any

from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from m05._noise import quiet

with quiet():
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

__all__ = ["copy_graph"]


def copy_graph(graph_module: GraphModule) -> GraphModule:
    """A deep copy whose annotations refer to its own nodes.

    `copy.deepcopy` copies the nodes and shares their meta: annotations go on pointing at nodes of
    the first graph, and convert does not find its way for dynamic quantization
    (`torchao/quantization/pt2e/quantizer/port_metadata_pass.py`). Names stay the same in a copy.

    Args:
        graph_module: A prepared graph.

    Returns:
        A copy that shares nothing with it.
    """
    copied = copy.deepcopy(graph_module)
    nodes = {node.name: node for node in copied.graph.nodes}

    def own(value: Any) -> Any:
        return nodes.get(value.name, value) if isinstance(value, Node) else value

    def own_spec(spec: Any) -> Any:
        for field in ("edge_or_node", "derived_from"):
            if hasattr(spec, field):
                return replace(spec, **{field: pytree.tree_map(own, getattr(spec, field))})
        return spec

    for node in copied.graph.nodes:
        if (annotation := node.meta.get(Q_ANNOTATION_KEY)) is not None:
            specs = annotation.input_qspec_map.items()
            node.meta[Q_ANNOTATION_KEY] = replace(
                annotation,
                input_qspec_map={own(source): own_spec(spec) for source, spec in specs},
                output_qspec=own_spec(annotation.output_qspec),
            )
    return copied
