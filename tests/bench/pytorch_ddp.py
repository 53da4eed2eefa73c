"""The peer of the training benchmarks: the same models, data and batches in PyTorch.

torchrun's environment starts one process per rank; several train in DDP over Gloo. Images and tokens are ready
in memory as normalized tensors, so only training is timed, except with --folder. Rank 0 prints one JSON line an
epoch, {"per_second": images or tokens over all ranks}, and "first step" after the first optimizer step.
"""

import argparse
import gzip
import json
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import pytorch_models as models

GPT = {"blocks": 4, "heads": 4, "features": 256, "vocabulary": 256, "context": 256}
PIXELS = 224


def read_idx(path, header_bytes):
    with gzip.open(path) as file:
        return numpy.frombuffer(file.read()[header_bytes:], dtype=numpy.uint8)


def fashion_mnist(directory):
    images = read_idx(f"{directory}/train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read_idx(f"{directory}/train-labels-idx1-ubyte.gz", 8)
    scaled = (torch.from_numpy(images.copy()).float() / 255 - 0.2860) / 0.3530
    return scaled, torch.from_numpy(labels.astype(numpy.int64))


def drawn(shape, samples):
    return torch.randn(samples, *shape), torch.randint(10, (samples,))


def windows(path):
    """The windows of a text, a byte a token, and for each token the next one."""
    text = torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8).astype(numpy.int64))
    count = (len(text) - 1) // GPT["context"]
    length = count * GPT["context"]
    return text[:length].view(count, -1), text[1:length + 1].view(count, -1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("mlp", "cnn", "resnet18", "gpt", "linear"), required=True)
    parser.add_argument("--variant", choices=("eager", "compile", "channels_last"), default="eager")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", help="folder of Fashion-MNIST")
    source.add_argument("--drawn", help="so many images of 3 x 32 x 32, drawn at random", type=int)
    source.add_argument("--text", help="file whose bytes are the tokens")
    source.add_argument("--folder", help="folder of JPEG files, read and cropped to 224 x 224 in each epoch")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--global-batch", type=int, default=128)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: all of the data")
    parser.add_argument("--steps-max", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes that read --folder")
    return parser.parse_args()


class InMemory:
    """Batches of one rank, indexed out of tensors in memory, pass after pass."""

    def __init__(self, inputs, labels, batch):
        self.inputs, self.labels, self.batch = inputs, labels, batch
        self.sampler = DistributedSampler(range(len(labels)), seed=1)
        self.per_sample = labels[0].numel()

    def __len__(self):
        return len(self.labels)

    def epoch(self, number):
        self.sampler.set_epoch(number)
        order = torch.tensor(list(self.sampler))
        for indices in order.split(self.batch):
            yield self.inputs[indices], self.labels[indices]


class Folder:
    """Batches that worker processes decode, crop and mirror."""

    per_sample = 1

    def __init__(self, path, batch, workers):
        from torchvision import datasets, transforms  # Only here, because it takes memory.

        change = transforms.Compose([
            transforms.RandomResizedCrop(PIXELS), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
            transforms.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))])
        images = datasets.ImageFolder(f"{path}/train", change)
        self.loader = DataLoader(images, batch, shuffle=True, num_workers=workers, persistent_workers=workers > 0)

    def __len__(self):
        return len(self.loader.dataset)

    def epoch(self, _):
        return iter(self.loader)


def source_of(options, batch):
    if options.folder:
        return Folder(options.folder, batch, options.workers)
    if options.text:
        return InMemory(*windows(options.text), batch)
    if options.drawn:
        return InMemory(*drawn((3, 32, 32), options.drawn), batch)
    return InMemory(*fashion_mnist(options.data), batch)


def model_of(options):
    """Takes inputs and labels, gives the mean loss."""
    if options.model == "gpt":
        return models.gpt(GPT)
    if options.model == "linear":
        return models.WithCrossEntropy(models.linear(3 * PIXELS * PIXELS))
    channels = 3 if options.drawn else 1
    return models.WithCrossEntropy(getattr(models, options.model)(channels))


class Trainer:
    def __init__(self, options, world_size):
        self.variant, self.steps_per_epoch = options.variant, options.steps_per_epoch
        self.source = source_of(options, options.global_batch // world_size)
        self.samples_per_step = options.global_batch
        model = model_of(options)
        if self.variant == "channels_last":
            model = model.to(memory_format=torch.channels_last)
        if options.model == "gpt":
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        else:
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        if world_size > 1:
            model = DistributedDataParallel(model)
        self.model = torch.compile(model) if self.variant == "compile" else model

    def _step(self, inputs, labels):
        if self.variant == "channels_last":
            inputs = inputs.to(memory_format=torch.channels_last)
        self.optimizer.zero_grad(set_to_none=True)
        self.model(inputs, labels).backward()
        self.optimizer.step()

    def _batches(self, number):
        """Without end: the next pass follows the last one."""
        while True:
            yield from self.source.epoch(number)
            number += 1

    def epochs(self, count, on_step):
        """Yields images or tokens a second of each epoch; ends early when on_step() returns true."""
        batches = self._batches(0) if self.steps_per_epoch else None
        for number in range(count):
            began, trained = time.perf_counter(), 0
            for step, (inputs, labels) in enumerate(batches or self.source.epoch(number), 1):
                self._step(inputs, labels)
                trained = step * self.samples_per_step
                if on_step():
                    return
                if step == self.steps_per_epoch:
                    break
            if not self.steps_per_epoch:
                trained = len(self.source)
            yield trained * self.source.per_sample / (time.perf_counter() - began)


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

    for rate in trainer.epochs(options.epochs, on_step):
        if rank == 0:
            print(json.dumps({"per_second": rate}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
