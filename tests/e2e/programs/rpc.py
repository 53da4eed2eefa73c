"""A group and torch.distributed.rpc share one store. Each rank asks the next one to add."""

import torch
import torch.distributed as dist
from torch.distributed import rpc

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
total = rpc.rpc_sync(f"worker{(rank + 1) % size}", torch.add, args=(torch.ones(1), rank))
dist.all_reduce(total)
print(f"total {total.item():.0f}")
rpc.shutdown()
dist.destroy_process_group()
