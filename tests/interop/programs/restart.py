"""Sums over all ranks. On the first run rank 0 crashes once all ranks have met, and creates the
file named on the command line."""

import os
import pathlib
import sys

import torch
import torch.distributed as dist

crashed = pathlib.Path(sys.argv[1])
again = crashed.exists()
dist.init_process_group("gloo")
dist.barrier()
if not again and dist.get_rank() == 0:
    crashed.touch()
    os._exit(3)
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {total.item():.0f}", flush=True)
dist.destroy_process_group()
