"""The peer of the training benchmarks: the same models, data and batches in PyTorch DDP over Gloo.

torchrun's environment starts one process per rank. The data is normalised in advance, so only
training is timed. Rank 0 prints one JSON line an epoch with images per second over all ranks,
and "first step" after the first optimizer step.
"""

import argparse
import gzip
import json
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


def read_idx(path, header_bytes):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read()[header_bytes:], dtype=numpy.uint8)


def load(directory):
    images = read_idx(f"{directory}/train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read_idx(f"{directory}/train-labels-idx1-ubyte.gz", 8)
    scaled = (torch.from_numpy(images.copy()).float() / 255 - 0.2860) / 0.3530
    return scaled, torch.from_numpy(labels.astype(numpy.int64))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128),
                         nn.ReLU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10))


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("mlp", "cnn"), required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--global-batch", type=int, default=128)
    parser.add_argument("--steps-max", type=int, default=0)
    return parser.parse_args()


class Trainer:
    def __init__(self, options, world_size):
        self.images, self.labels = load(options.data)
        self.batch = options.global_batch // world_size
        model = {"mlp": mlp, "cnn": cnn}[options.model]()
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        self.sampler = DistributedSampler(range(len(self.labels)), seed=1)
        self.loss = nn.CrossEntropyLoss()

    def epoch(self, number, on_step):
        self.sampler.set_epoch(number)
        order = torch.tensor(list(self.sampler))
        for indices in order.split(self.batch):
            self.optimizer.zero_grad(set_to_none=True)
            self.loss(self.model(self.images[indices]), self.labels[indices]).backward()
            self.optimizer.step()
            if on_step():
                return


def main():
    options = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    trainer = Trainer(options, dist.get_world_size())
    steps = 0

    def on_step():
        nonlocal steps
        steps += 1
        if steps == 1 and rank == 0:
            print("first step", flush=True)
        return steps == options.steps_max

    for number in range(options.epochs):
        began = time.perf_counter()
        trainer.epoch(number, on_step)
        seconds = time.perf_counter() - began
        if rank == 0:
            print(json.dumps({"images_per_second": len(trainer.labels) / seconds}), flush=True)
        if steps == options.steps_max:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
