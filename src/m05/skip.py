"""`SkipQuantizer`: let a quantizer annotate, then leave named modules in float."""

import difflib
from collections.abc import Iterable
from dataclasses import replace

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import DerivedQuantizationSpec, SharedQuantizationSpec

from m05.graph_utils import is_under, module_path, module_paths
from m05.pt2e import ANNOTATION_KEY, QuantizationAnnotation, Quantizer

__all__ = ["SkipQuantizer"]


class SkipQuantizer(Quantizer):
    """Annotate with `inner`, then clear the named modules, so that they stay in floating point.

    Other nodes may share a cleared node's observer (`SharedQuantizationSpec`): pooling shares its
    input's, for example. Such a spec points at nothing, and `prepare_pt2e` would stop with a
    `KeyError`. So the node that holds it is cleared as well, and this cascades until nothing
    changes.

    >>> from m05.data import trained_tiny_net
    >>> from m05.models import example_inputs
    >>> from m05.pt2e import export_module, get_xnnpack_quantizer, prepare_pt2e
    >>> exported = export_module(trained_tiny_net(), example_inputs())
    >>> quantizer = SkipQuantizer(get_xnnpack_quantizer()[0], skip=["head_conv"])
    >>> prepared = prepare_pt2e(exported, quantizer)
    >>> quantizer.cleared  # gap and the flatten shared head_conv's observer
    ('head_conv.conv', 'head_conv.relu', 'gap', '')

    Args:
        inner: The quantizer that annotates.
        skip: Paths of modules, as in `model.named_modules()`, to leave in float with all that
            lies inside them. A quantized operation next to them still quantizes its own input.
        no_output: Paths of modules whose *output* is not quantized; their inputs, weights and
            inner activations still are. It pays at the end of a model: in the middle, a
            quantized operation that takes this output quantizes it again as its own input.

    Raises:
        TypeError: `skip` or `no_output` is one string instead of a sequence of them; `inner` is
            no quantizer.
        ValueError: During prepare, when a name matches no module of the graph (near names are
            listed), or when a `no_output` module has no quantized output.

    Source: shared specs, <https://docs.pytorch.org/ao/stable/pt2e_quantization/pt2e_quantizer.html>;
    the `KeyError` comes from `torchao/quantization/pt2e/prepare.py`, `_find_root_edge_or_node`.
    """

    def __init__(
        self, inner: Quantizer, skip: Iterable[str] = (), no_output: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self.skip, self.no_output = _names("skip", skip), _names("no_output", no_output)
        if not isinstance(inner, Quantizer):
            raise TypeError(
                f"inner is a quantizer, got {type(inner).__name__}; get_xnnpack_quantizer() "
                "returns (quantizer, config), of which it is the first."
            )
        self.inner = inner
        self.cleared: tuple[str, ...] = ()

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        return self.inner.transform_for_annotation(model)

    def annotate(self, model: GraphModule) -> GraphModule:
        self.inner.annotate(model)
        _check_names(model, self.skip + self.no_output)
        annotated = [n for n in model.graph.nodes if ANNOTATION_KEY in n.meta]
        # Before skip clears anything: the same module may stand in both.
        outputs = [n for name in self.no_output for n in _quantized_outputs(annotated, name)]
        for node in annotated:
            if is_under(module_path(node), self.skip):
                del node.meta[ANNOTATION_KEY]
        for node in outputs:
            if (annotation := node.meta.get(ANNOTATION_KEY)) is not None:
                node.meta[ANNOTATION_KEY] = replace(annotation, output_qspec=None)
        _clear_dangling(annotated)
        self.cleared = tuple(
            dict.fromkeys(
                module_path(n)
                for n in annotated
                if ANNOTATION_KEY not in n.meta and n.op == "call_function"
            )
        )
        return model

    def validate(self, model: GraphModule) -> None:
        self.inner.validate(model)

    def prepare_obs_or_fq_callback(self, model, edge_or_node_to_obs_or_fq):  # type: ignore[no-untyped-def]
        return self.inner.prepare_obs_or_fq_callback(model, edge_or_node_to_obs_or_fq)


def _names(argument: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"{argument} is a sequence of names; write {argument}=[{names!r}].")
    found = tuple(names)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"{argument} takes module paths, as strings; got {list(found)!r}.")
    return found


def _check_names(model: GraphModule, names: Iterable[str]) -> None:
    paths = module_paths(model)
    for name in names:
        if name in paths:
            continue
        if name and _is_module(model, name):
            raise ValueError(
                f"module {name!r} owns no node when the quantizer annotates: batch norm is folded "
                "into its convolution by then, and a module that is never called leaves no trace. "
                f"Name the module that computes. Modules with nodes: {_short(paths)}."
            )
        near = difflib.get_close_matches(name, paths, n=4, cutoff=0.5)
        hint = f"near names: {', '.join(near)}" if near else f"modules: {_short(paths)}"
        raise ValueError(f"no node lies under module {name!r}; {hint}.")


def _is_module(model: GraphModule, name: str) -> bool:
    try:
        model.get_submodule(name)
    except AttributeError:
        return False
    return True


def _short(paths: list[str], most: int = 12) -> str:
    more = f", … ({len(paths)} in all)" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


def _quantized_outputs(annotated: list[Node], name: str) -> list[Node]:
    """The nodes whose quantized value leaves the module `name`."""
    inside = [n for n in annotated if is_under(module_path(n), [name])]
    found = [
        n
        for n in inside
        if n.meta[ANNOTATION_KEY].output_qspec is not None
        and any(not is_under(module_path(user), [name]) for user in n.users)
    ]
    if found:
        return found
    # Fused: the quantizer annotates conv + relu as one, and only the relu has the output spec.
    fused = {
        module_path(user)
        for n in inside
        for user in n.users
        if user in annotated
        and not user.meta[ANNOTATION_KEY].input_qspec_map
        and user.meta[ANNOTATION_KEY].output_qspec is not None
    }
    named = ", ".join(sorted(fused - {""}))
    where = f"; it is fused with {named}, name that" if named else ""
    if "" in fused:
        where = "; it is fused with an operation of the top module, which has no name of its own"
    raise ValueError(f"the output of module {name!r} is not quantized by itself{where}.")


def _clear_dangling(nodes: list[Node]) -> None:
    """Clear every annotation with a spec that points at a cleared one, until none is left."""
    annotations = {n: n.meta[ANNOTATION_KEY] for n in nodes if ANNOTATION_KEY in n.meta}
    while dangling := [n for n, a in annotations.items() if _dangles(a, annotations)]:
        for node in dangling:
            del node.meta[ANNOTATION_KEY], annotations[node]


def _dangles(
    annotation: QuantizationAnnotation, annotations: dict[Node, QuantizationAnnotation]
) -> bool:
    targets = []
    for spec in (*annotation.input_qspec_map.values(), annotation.output_qspec):
        if isinstance(spec, SharedQuantizationSpec):
            targets.append(spec.edge_or_node)
        elif isinstance(spec, DerivedQuantizationSpec):
            targets.extend(spec.derived_from)
    return any(not _exists(target, annotations) for target in targets)


def _exists(
    target: Node | tuple[Node, Node], annotations: dict[Node, QuantizationAnnotation]
) -> bool:
    if isinstance(target, Node):
        found = annotations.get(target)
        return found is not None and found.output_qspec is not None
    source, user = target  # an edge: the input `source` of the node `user`
    found = annotations.get(user)
    return found is not None and source in found.input_qspec_map
