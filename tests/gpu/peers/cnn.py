"""The preset cnn in PyTorch. The images are on the device before the clock starts, and are gathered there in random
order. Prints {"images_per_second": ..., "step_ms": ...}, the medians of the rounds, and "first step" after the first.
Exits with 3 if the memory does not suffice.

    cnn.py --variant eager|compile|reduce_overhead|graph [--batch 128] [--images 60000] [--rounds 3]
           [--precision float32|tf32|bf16] [--ddp] [--steps-max 0] [--device cuda]

A round is an epoch. float32 is computed in full; bf16 is autocast over float32 weights. With --ddp the model is wrapped
in DistributedDataParallel, with torchrun's environment or as a world of one.
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

VARIANTS = ("eager", "compile", "reduce_overhead", "graph")
# PyTorch needs so many steps before it captures DistributedDataParallel; enough for every other variant.
WARM_UP_STEPS = 12
OUT_OF_MEMORY = 3


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10))


class Training:
    def __init__(self, options):
        torch.manual_seed(1)
        self.device, self.batch = options.device, options.batch
        self.images = torch.randn(options.images, 1, 28, 28, device=self.device)
        self.labels = torch.randint(10, (options.images,), device=self.device)
        self.precision = torch.bfloat16 if options.precision == "bf16" else None
        model = cnn().to(self.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9,
                                         fused=self.device == "cuda")
        self.model = DistributedDataParallel(model) if options.ddp else model
        # The order of an epoch and the place in it are on the device, so that a captured step moves on.
        self.order = torch.arange(options.images, device=self.device)
        self.place = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.offsets = torch.arange(self.batch, device=self.device)
        self.loss = self._loss_by(options.variant)
        self.step = self._captured() if options.variant == "graph" else self.plain_step

    def _loss_by(self, variant):
        if variant == "compile":
            return torch.compile(self.plain_loss)
        if variant == "reduce_overhead":
            return torch.compile(self.plain_loss, mode="reduce-overhead")
        return self.plain_loss

    def plain_loss(self, images, labels):
        with torch.autocast(self.device, self.precision, enabled=self.precision is not None):
            return functional.cross_entropy(self.model(images), labels)

    def plain_step(self):
        samples = self.order[self.place + self.offsets]
        self.place += self.batch
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.images[samples], self.labels[samples]).backward()
        self.optimizer.step()

    def _captured(self):
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP_STEPS):
                self.plain_step()
        torch.cuda.current_stream().wait_stream(aside)
        self.begin_epoch()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.plain_step()
        return graph.replay

    def begin_epoch(self):
        self.order.copy_(torch.randperm(len(self.order), device=self.device))
        self.place.zero_()

    def settle(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    @property
    def steps_per_epoch(self):
        return len(self.order) // self.batch

    def seconds(self, steps):
        self.begin_epoch()
        self.settle()
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.settle()
        return time.perf_counter() - began


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", choices=VARIANTS, default="eager")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--images", type=int, default=60000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"), default="float32")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--steps-max", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def join(options):
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    else:
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo", store=dist.HashStore(),
                                rank=0, world_size=1)


def main():
    try:
        measure(arguments())
    except torch.cuda.OutOfMemoryError:
        sys.exit(OUT_OF_MEMORY)


def measure(options):
    torch.set_float32_matmul_precision("highest" if options.precision == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = options.precision != "float32"
    if options.ddp:
        join(options)
    training = Training(options)
    training.seconds(1)
    print("first step", flush=True)
    if options.steps_max != 1:
        training.seconds(min(WARM_UP_STEPS, training.steps_per_epoch))
        step = statistics.median(training.seconds(training.steps_per_epoch) for _ in range(options.rounds))
        step /= training.steps_per_epoch
        print(json.dumps({"images_per_second": options.batch / step, "step_ms": 1000 * step}))
    if options.ddp:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
