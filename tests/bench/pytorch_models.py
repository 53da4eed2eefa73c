"""The models of the training benchmarks in PyTorch, layer for layer as dp computes them."""

import pathlib
import sys

from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpu" / "peers"))

from gpt2 import Gpt2, Size  # noqa: E402


def mlp(channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(784 * channels, 256), nn.ReLU(), nn.Linear(256, 128),
                         nn.ReLU(), nn.Linear(128, 10))


def cnn(channels):
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10))


def resnet18(channels):
    """With the stem for small images, as the preset resnet18-cifar."""
    import torchvision  # Only here, because it takes memory, which another benchmark measures.

    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


class WithCrossEntropy(nn.Module):
    """The mean loss of a classifier, so that a compiler sees the loss, too."""

    def __init__(self, classifier):
        super().__init__()
        self.classifier = classifier

    def forward(self, images, labels):
        return functional.cross_entropy(self.classifier(images), labels)


def linear(pixels):
    """Next to no arithmetic: what is left of a step is reading the images."""
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, 10))


def gpt(sizes):
    """`sizes`: blocks, heads, features, vocabulary, context. The model gives the mean loss."""
    return Gpt2(Size(**sizes))
