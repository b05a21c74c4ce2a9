"""From an eager model to an exported graph with a dynamic batch."""

import copy
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from m05._noise import quiet

__all__ = ["export_module"]


def export_module(
    model: nn.Module,
    example_inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_batch: bool = True,
) -> GraphModule:
    """Export a model to a graph module, with the batch dimension dynamic; the model is untouched.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3)).eval()
    >>> gm = export_module(model, (torch.zeros(1, 4),))
    >>> gm(torch.zeros(7, 4)).shape
    torch.Size([7, 3])

    Args:
        model: An `nn.Module` in eval mode. In train mode batch norm is exported as training and
            cannot be folded: that is allowed, with a warning.
        example_inputs: Positional inputs in a tuple; tensors, also nested in lists or dicts.
        kwargs: Keyword inputs.
        dynamic_batch: Dimension 0 of the first tensor is the batch: it is dynamic, and so is
            dimension 0 of every other tensor of that size. A batch of one is repeated for the
            trace only, because `torch.export` would fix a dimension of size 1.

    Returns:
        A `GraphModule` with copies of the parameters and buffers.

    Raises:
        TypeError: `example_inputs` is no tuple, or `model` is no `nn.Module`.
        ValueError: The model fixes its batch size; the message says where.

    Source: <https://docs.pytorch.org/docs/stable/export.html>.
    """
    if not isinstance(model, nn.Module):
        hint = "; take its .module()" if isinstance(model, ExportedProgram) else ""
        raise TypeError(f"export_module takes an nn.Module, got {type(model).__name__}{hint}.")
    if not isinstance(example_inputs, tuple):
        raise TypeError(
            f"example_inputs is a tuple of inputs, got {type(example_inputs).__name__}; "
            "for one tensor write (x,)."
        )
    in_training = [name or "(top)" for name, m in model.named_modules() if m.training]
    if in_training and not isinstance(model, GraphModule):
        warnings.warn(
            f"{in_training[0]} and {len(in_training) - 1} more modules are in train mode: batch "
            "norm and dropout are exported as training. Call model.eval() before export.",
            stacklevel=2,
        )
    args, kw = example_inputs, dict(kwargs or {})
    shapes: Any = None
    if dynamic_batch:
        args, kw = _batch_of_two((args, kw))
        shapes = _dynamic_shapes(model, args, kw)
    with quiet():
        try:
            exported = torch.export.export(model, args, kwargs=kw, dynamic_shapes=shapes)
        except (ValueError, torch._dynamo.exc.UserError) as error:
            if not dynamic_batch or "dynamic" not in str(error):
                raise
            raise ValueError(
                f"{type(model).__name__} cannot be exported with a dynamic batch dimension; pass "
                f"dynamic_batch=False to fix it at the example's size. torch.export says: {error}"
            ) from error
        # A copy: batch norm exported in train mode writes its buffers, which would be the model's.
        return copy.deepcopy(exported.module())


def _batch_size(inputs: Any) -> int | None:
    """Dimension 0 of the first tensor."""
    tensors = [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor) and t.ndim]
    return tensors[0].shape[0] if tensors else None


def _is_batch(leaf: Any, size: int | None) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.ndim > 0 and leaf.shape[0] == size


def _batch_of_two(inputs: tuple[Any, Any]) -> tuple[Any, Any]:
    size = _batch_size(inputs)
    if size == 0:
        raise ValueError("the example batch is empty; export with at least one sample.")
    if size != 1:
        return inputs
    return pytree.tree_map(lambda t: torch.cat([t, t]) if _is_batch(t, 1) else t, inputs)


def _dynamic_shapes(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The dynamic dimensions by parameter of `forward`, as torch.export wants them."""
    size = _batch_size((args, kwargs))
    if size is None:
        return None
    signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"the inputs do not fit {type(model).__name__}.forward: {error}") from None
    for name in bound:
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            # torch 2.13 stops with an AssertionError of its own here.
            raise ValueError(
                f"{type(model).__name__}.forward takes **{name}, for which torch.export has no "
                "dynamic shapes: name the parameters, or pass dynamic_batch=False."
            )
    return pytree.tree_map(lambda t: {0: Dim.DYNAMIC} if _is_batch(t, size) else None, dict(bound))
