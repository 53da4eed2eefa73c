"""Shared by the scripts that compare with PyTorch: the reference, the probe, and how to skip."""

import pathlib
import subprocess
import sys

SKIPPED = 77  # ctest's SKIP_RETURN_CODE of these tests

try:
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}; the Debian packages are python3-torch and python3-numpy")
    sys.exit(SKIPPED)

torch.set_num_threads(1)


class Probe:
    """The program engine_probe, and the directory it shares with this script."""

    def __init__(self, program, directory):
        self.program = program
        self.directory = pathlib.Path(directory)

    def run(self, *arguments, stdin=None):
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True, text=True)
        return done.stdout.splitlines()

    def write(self, name, array):
        array.tofile(self.directory / name)

    def read(self, name, shape):
        return torch.from_numpy(numpy.fromfile(self.directory / name, "float32").reshape(shape))

    def write_parameters(self, model):
        for name, parameter in model.named_parameters():
            self.write(f"{name}.f32", parameter.detach().numpy())

    def read_parameters(self, model, ending=".f32"):
        return {
            name: self.read(name + ending, parameter.shape)
            for name, parameter in model.named_parameters()
        }


def mlp():
    nn = torch.nn
    return [
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 10),
    ]


def cnn():
    nn = torch.nn
    return [
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10),
    ]


def preset(name):
    """The preset of base/model/layer_spec.cc as a module whose parameters have the same names."""
    model = torch.nn.Sequential()
    for position, layer in enumerate({"mlp": mlp, "cnn": cnn}[name]()):
        model.add_module(type(layer).__name__.lower() + str(position), layer)
    return model
