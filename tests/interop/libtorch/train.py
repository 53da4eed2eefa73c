"""The training of train.cc by PyTorch's own DistributedDataParallel over Gloo: python3 train.py mlp|cnn STEPS WEIGHTS [alone]."""

import json
import sys
import time

import torch
import torch.distributed
from torch import nn

SAMPLES, CLASSES, WARM_UP = 32, 10, 5


def mlp():
    layers = [layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(1024, CLASSES))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def noise(shape, scale, phase):
    waves = torch.arange(torch.Size(shape).numel(), dtype=torch.float).mul(12.9898).add(phase).sin()
    return ((waves * 43758.547).frac() * scale).reshape(shape)


def main():
    name, steps, weights = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = {"mlp": mlp, "cnn": cnn}[name]()
    with torch.no_grad():
        for phase, parameter in enumerate(model.parameters()):
            parameter.copy_(noise(parameter.shape, 0.05, phase))
    ddp = model if len(sys.argv) > 4 else nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs = noise((SAMPLES, 1024) if name == "mlp" else (SAMPLES, 1, 28, 28), 1, 0.5 + rank)
    labels = torch.arange(SAMPLES).add(rank).remainder(CLASSES)

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(inputs), labels).backward()
        optimizer.step()

    for _ in range(min(steps, WARM_UP)):
        step()
    torch.distributed.barrier()
    begin = time.perf_counter()
    for _ in range(WARM_UP, steps):
        step()
    took = time.perf_counter() - begin
    if rank == 0:
        values = [*model.parameters(), *model.buffers()]
        torch.cat([value.detach().float().reshape(-1) for value in values]).numpy().tofile(weights)
        print(json.dumps({"ms_per_step": took * 1000 / max(1, steps - WARM_UP)}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
