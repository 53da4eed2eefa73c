"""Fails in its first run, like a program that torchrun restarts; then sums over its ranks."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
if restart == "0" and dist.get_rank() == 1:
    sys.exit(9)
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print(f"restart {restart} of {os.environ['TORCHELASTIC_MAX_RESTARTS']}, sum {total.item()}")
dist.destroy_process_group()
