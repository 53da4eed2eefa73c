"""Makes group after group; each one is a rendezvous in the store. Prints when it begins and the
number of groups."""

import torch
import torch.distributed as dist

GROUPS = 20

dist.init_process_group("gloo")
size = dist.get_world_size()
print("begin", flush=True)
for number in range(GROUPS):
    group = dist.new_group()
    total = torch.ones(1)
    dist.all_reduce(total, group=group)
    assert total.item() == size, (number, total)
print(f"made {GROUPS} groups of {size}")
del group  # ends the group's threads
dist.destroy_process_group()
