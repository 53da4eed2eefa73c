"""A data-parallel program written for torchrun: groups, barriers, sampler, training, save and
load. Reports each in a line that the test reads."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert rank == int(os.environ["RANK"]) and size == int(os.environ["WORLD_SIZE"])

total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)
print(f"sum {total.item():.0f}")

# A group of the even ranks only.
even = dist.new_group(list(range(0, size, 2)))
if rank % 2 == 0:
    count = torch.ones(1)
    dist.all_reduce(count, group=even)
    print(f"even {count.item():.0f}")
dist.barrier()

torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = torch.randn(32, 4, generator=torch.Generator().manual_seed(7))
targets = inputs.sum(1, keepdim=True)
sampler = DistributedSampler(range(32), shuffle=True, seed=3)
seen = []
for epoch in range(20):
    sampler.set_epoch(epoch)
    indices = list(sampler)
    if epoch == 0:
        seen = indices
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs[indices]), targets[indices])
    loss.backward()
    optimizer.step()
shares = [None] * size
dist.all_gather_object(shares, seen)
print(f"samples {len(set(sum(shares, [])))} of 32, {len(seen)} here")
print(f"loss {'fell' if loss.item() < 0.5 else 'stayed'}")

# Rank 0 saves; all ranks load and compare.
path = os.path.join(sys.argv[1], "model.pt")
if rank == 0:
    torch.save(model.state_dict(), path)
dist.barrier()
model.load_state_dict(torch.load(path))
weights = [torch.empty(1, 4) for _ in range(size)]
dist.all_gather(weights, model.module.weight.detach())
print("weights equal" if all(torch.equal(w, weights[0]) for w in weights) else "weights differ")
# Any reference to a group keeps its threads alive. A thread that drops the last reference to a
# tensor during shutdown aborts the program.
del model, even
dist.destroy_process_group()
