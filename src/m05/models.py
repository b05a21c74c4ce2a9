"""`TinyConvNet`, the small residual network that the pages take apart."""

import torch
from torch import nn

__all__ = ["TinyConvNet", "example_inputs"]

IMAGE_SHAPE = (3, 16, 16)
NUM_CLASSES = 10


class ConvBnRelu(nn.Module):
    """Convolution 3×3, batch norm, ReLU: (N, C, H, W) to (N, K, H, W).

    >>> ConvBnRelu(3, 8)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        # No bias: batch norm brings its own, and folding makes one (see page M05-1).
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.bn(self.conv(x)))


class ResidualBlock(nn.Module):
    """Two convolutions with a shortcut; one `relu` module is called twice, on purpose.

    >>> ResidualBlock(8)(torch.zeros(2, 8, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + x)


class TinyConvNet(nn.Module):
    """A residual net for small images: (N, 3, 16, 16) to logits (N, classes).

    Small enough to read whole, with what makes quantization interesting: batch norm to fold, a
    residual add, pooling that shares its observer, one ReLU module called twice, and a classifier.

    >>> import torch
    >>> TinyConvNet()(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 10])

    Args:
        num_classes: Length of the logits.
        width: Channels of stem and block; `head_conv` has twice as many.

    Source: residual learning, <https://arxiv.org/abs/1512.03385>.
    """

    def __init__(self, num_classes: int = NUM_CLASSES, width: int = 16) -> None:
        super().__init__()
        self.stem = ConvBnRelu(3, width)
        self.pool1 = nn.MaxPool2d(2)
        self.block = ResidualBlock(width)
        self.pool2 = nn.MaxPool2d(2)
        self.head_conv = ConvBnRelu(width, 2 * width)
        self.gap = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2 * width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool1(self.stem(x))
        x = self.pool2(self.block(x))
        x = self.gap(self.head_conv(x))
        return self.fc(torch.flatten(x, 1))


def example_inputs(batch_size: int = 2) -> tuple[torch.Tensor]:
    """Example inputs to export `TinyConvNet` with: one float tensor in a tuple.

    >>> [tuple(t.shape) for t in example_inputs()]
    [(2, 3, 16, 16)]

    Args:
        batch_size: Samples; the values are standard normal and the same on every call.

    Returns:
        `(x,)` with x of shape (batch_size, 3, 16, 16).
    """
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch_size, *IMAGE_SHAPE, generator=generator),)
