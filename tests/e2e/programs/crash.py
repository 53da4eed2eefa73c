"""Rank 1 raises while the others wait for it."""

import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("no such layer: conv7")
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError:
    signal.pause()  # rank 1 must exit first, however long Python takes to report its error
