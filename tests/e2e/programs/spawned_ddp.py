"""A program spawns two replicas, which meet at a store that one of them serves, as in PyTorch's
tutorials. The model is a linear layer 2 -> 3, with one sample per replica. Each replica prints its
gradients.

    spawned_ddp.py PORT
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

INPUTS = [[0.5209, 0.3261], [-0.1868, -1.0617]]


def replica(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    layer = torch.nn.Linear(2, 3)
    model = DistributedDataParallel(layer)
    labels = torch.nn.functional.one_hot(torch.tensor([rank]), 3)
    (model(torch.tensor([INPUTS[rank]])) * labels).sum().backward()
    gradients = [round(value, 6) for value in layer.weight.grad.flatten().tolist()]
    # In one write: the replicas share one output, and print writes the end of a line separately.
    sys.stdout.write(f"replica {rank} weight {gradients}\n")
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # PyTorch 2.15 keeps the group's threads after DistributedDataParallel


if __name__ == "__main__":
    mp.spawn(replica, args=(2, sys.argv[1]), nprocs=2, join=True)
