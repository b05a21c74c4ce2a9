"""The pages' task: synthetic images, loaders, calibration batches, accuracy, trained weights."""

import copy
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load
from torch import nn
from torch.fx import GraphModule
from torch.utils.data import DataLoader, TensorDataset

from m05._noise import quiet
from m05.models import IMAGE_SHAPE, NUM_CLASSES, TinyConvNet

__all__ = [
    "calibration_batches",
    "evaluate",
    "make_loader",
    "synthetic_images",
    "train_tiny_net",
    "trained_tiny_net",
]

# The task. Noise and patterns that share a part with their neighbour make it hard; contrast that
# varies from image to image makes a few images much stronger than the others, as exposure does.
_PATTERN_SEED = 305
_NOISE = 2.35  # standard deviation
_CONTRAST = 0.45  # standard deviation of its logarithm
_MIX = 0.3  # share of the neighbouring class's pattern
_MAX_SHIFT = 4  # pixels, in both directions
# Evaluation draws from its own stream: no seed gives it images that calibration or training has.
_EVALUATION_STREAM = 10_000_000
_PLAIN: Any = {"dtype": torch.float32, "device": "cpu"}  # whatever the reader's defaults are
# The recipe of the shipped weights; `train_tiny_net` with other seeds gives other examples.
_TRAIN_SAMPLES = 2048
_EPOCHS = 8
_BATCH = 64
_LEARNING_RATE = 0.01
_WEIGHT_DECAY = 0.1
_RECIPE_SEED = 7541


def synthetic_images(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of ten smooth random patterns, shifted, of varying contrast, under noise.

    >>> x, y = synthetic_images(5, seed=1)
    >>> x.shape, y.shape
    (torch.Size([5, 3, 16, 16]), torch.Size([5]))

    Args:
        n: Samples.
        seed: Equal seeds give equal data; the patterns are the same for every seed. Draws of
            different `n` with one seed are related: take another seed for independent data.

    Returns:
        The images `x` (n, 3, 16, 16), float32, and their class indices `y` (n,).

    Raises:
        ValueError: `n` is less than one.
    """
    if n < 1:
        raise ValueError(f"asked for {n} samples; ask for at least one.")
    channels, height, width = IMAGE_SHAPE
    coarse = torch.randn(
        NUM_CLASSES,
        channels,
        4,
        4,
        generator=torch.Generator().manual_seed(_PATTERN_SEED),
        **_PLAIN,
    )
    patterns = F.interpolate(coarse, size=(height, width), mode="bilinear", align_corners=False)
    patterns = (1 - _MIX) * patterns + _MIX * patterns.roll(1, dims=0)
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(NUM_CLASSES, (n,), generator=generator)
    contrast = torch.exp(_CONTRAST * torch.randn(n, 1, 1, 1, generator=generator, **_PLAIN))
    shift = torch.randint(-_MAX_SHIFT, _MAX_SHIFT + 1, (2, n, 1), generator=generator)
    rows = (torch.arange(height) - shift[0]) % height
    columns = (torch.arange(width) - shift[1]) % width
    index = torch.arange(n)[:, None, None]
    shifted = patterns[y].movedim(1, -1)[index, rows[:, :, None], columns[:, None, :]]
    noise = torch.randn(n, *IMAGE_SHAPE, generator=generator, **_PLAIN)
    return (contrast * shifted.movedim(-1, 1) + _NOISE * noise).contiguous(), y


def make_loader(
    n: int = 1024, seed: int = 2, shuffle: bool = False
) -> DataLoader[tuple[torch.Tensor, ...]]:
    """A loader of labelled samples for evaluation.

    >>> sum(len(y) for _, y in make_loader(100))
    100

    Args:
        n: Samples.
        seed: Equal seeds give equal samples. No seed gives samples that calibration or training
            has: evaluation draws from a stream of its own.
        shuffle: Another order on every pass.

    Returns:
        A `DataLoader` of `(x, y)`, images (N, 3, 16, 16) and class indices (N,), N at most 128.

    Raises:
        ValueError: `n` is less than one.
    """
    samples = synthetic_images(n, _EVALUATION_STREAM + seed)
    return DataLoader(TensorDataset(*samples), batch_size=128, shuffle=shuffle)


def calibration_batches(
    n: int, seed: int = 0, batch_size: int = 64
) -> Iterator[tuple[torch.Tensor]]:
    """Unlabelled samples for calibration: `n` in all, as tuples of positional inputs.

    >>> (x,) = next(calibration_batches(64, seed=9))
    >>> x.shape
    torch.Size([64, 3, 16, 16])
    >>> [len(x) for (x,) in calibration_batches(150, seed=9)]
    [64, 64, 22]

    Args:
        n: Samples in all.
        seed: Equal seeds give equal samples.
        batch_size: Samples in a batch; the last batch may be smaller.

    Returns:
        An iterator of `(x,)`.

    Raises:
        ValueError: `n` or `batch_size` is less than one.
    """
    if batch_size < 1:
        raise ValueError(f"a batch has at least one sample, got batch_size={batch_size}.")
    images, _ = synthetic_images(n, seed)
    return ((batch,) for batch in images.split(batch_size))


@torch.no_grad()
def evaluate(model: nn.Module, loader: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Top-1 accuracy of a classifier, eager or exported; the model is left as it was.

    >>> loader = make_loader(256)
    >>> 0.5 < evaluate(trained_tiny_net(), loader) < 0.9
    True

    Args:
        model: Maps a batch to logits (N, classes), at least two classes. An eager model is
            evaluated in eval mode, a graph as a copy: a prepared one would go on observing.
        loader: Batches of `(x, y)`, y class indices (N,).

    Returns:
        The share of correct samples, in [0, 1].

    Raises:
        TypeError: The model's output or the labels are no tensor.
        ValueError: The loader yields no samples; the logits are not (N, classes) or not finite;
            the labels are not (N,).
    """
    switched = [m for m in model.modules() if m.training]
    if isinstance(model, GraphModule):  # it keeps the mode of its export, and cannot be switched
        with quiet():
            model, switched = copy.deepcopy(model), []
    for module in switched:
        module.training = False
    try:
        correct = total = 0
        for x, y in loader:
            correct += int((_predictions(model(x), y) == y).sum())
            total += len(y)
    finally:
        for module in switched:
            module.training = True
    if total == 0:
        raise ValueError("the loader yields no samples, so there is no accuracy.")
    return correct / total


def _predictions(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if not isinstance(logits, torch.Tensor) or not isinstance(y, torch.Tensor):
        raise TypeError(
            f"accuracy takes tensors, got a model output of type {type(logits).__name__} and "
            f"labels of type {type(y).__name__}; select the logits, for example in a wrapper."
        )
    if logits.ndim != 2 or logits.shape[1] < 2 or y.shape != logits.shape[:1]:
        raise ValueError(
            "accuracy takes logits (N, classes) and labels (N,), got logits "
            f"{tuple(logits.shape)} and labels {tuple(y.shape)}; reshape them in the loader."
        )
    if not torch.isfinite(logits).all():
        raise ValueError("the logits are not finite; look for the first layer that makes them so.")
    return logits.argmax(1)


def train_tiny_net(seed: int = _RECIPE_SEED) -> TinyConvNet:
    """Train a `TinyConvNet` anew: seconds on one core.

    The shipped weights come from the default seed on one thread. On another processor, or with
    more threads, floating-point sums run in another order, and training amplifies the difference:
    the net comes out as good, but not the same. So the pages use the shipped weights.

    >>> evaluate(train_tiny_net(seed=1), make_loader(256)) > 0.3  # ten classes: chance is 0.1
    True

    Args:
        seed: Of the initial weights and the order of samples.

    Returns:
        The model in eval mode.

    Source: AdamW, <https://arxiv.org/abs/1711.05101>, with a cosine schedule,
    <https://arxiv.org/abs/1608.03983>.
    """
    x, y = synthetic_images(_TRAIN_SAMPLES, seed=1)
    x = x.contiguous(memory_format=torch.channels_last)  # as the shipped weights were trained
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = TinyConvNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
    steps = _EPOCHS * (_TRAIN_SAMPLES // _BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order = torch.Generator().manual_seed(seed)
    for _ in range(_EPOCHS):
        for batch in torch.randperm(_TRAIN_SAMPLES, generator=order).split(_BATCH):
            loss = F.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def trained_tiny_net() -> TinyConvNet:
    """The example of the pages: `TinyConvNet` with the weights that ship with the package.

    This net was chosen: with its seed, the chapter's conclusions show clearly. How often they
    hold for other seeds is a question of its own, which `train_tiny_net` lets you ask.

    >>> trained_tiny_net().training
    False

    Returns:
        A new model in eval mode, with the same weights on each call.
    """
    with torch.random.fork_rng(devices=[]):  # the initial weights are replaced at once
        model = TinyConvNet().to(torch.float32)
    weights = files("m05").joinpath("weights", "tiny_conv_net.safetensors").read_bytes()
    model.load_state_dict(load(weights))
    return model.eval()
