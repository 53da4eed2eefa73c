"""A classifier trained with DistributedDataParallel, written for torchrun.

    dpctl torchrun --standalone --nproc-per-node 2 examples/pytorch_ddp.py --epochs 3

The program does not use dp: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT give its place.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def spiral(samples=3000, classes=3):
    """Points on a spiral with one arm per class."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(samples) % classes
    radius = torch.rand(samples, generator=generator)
    angle = radius * 4 + labels * (2 * torch.pi / classes)
    angle += 0.15 * torch.randn(samples, generator=generator)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], 1), labels)


def accuracy(model, data):
    points, labels = data.tensors
    with torch.no_grad():
        return (model(points).argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=60, help="over all ranks together")
    options = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # DDP broadcasts rank 0's parameters
    layers = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64),
                                 torch.nn.ReLU(), torch.nn.Linear(64, 3))
    model = DistributedDataParallel(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = spiral()
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, options.batch_size // world_size, sampler=sampler)

    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        for points, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(points), labels)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}/{options.epochs}  accuracy {accuracy(model.module, data):.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # PyTorch 2.15 keeps the process group's threads after DistributedDataParallel. They can abort
    # the interpreter's shutdown (signal 6), which would fail a finished job.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
