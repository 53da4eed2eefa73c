"""Rank 1 never joins the collective. Every rank has a child, and all of them ignore SIGTERM."""

import signal
import subprocess

import torch
import torch.distributed as dist

signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("gloo")
child = subprocess.Popen(["tail", "-f", "/dev/null"], start_new_session=True)
print(f"child {child.pid}")
if dist.get_rank() == 1:
    signal.pause()
dist.all_reduce(torch.ones(1))
