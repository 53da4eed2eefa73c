"""Ranks wait for a key of the store, then sum. Setting the key lets them continue."""

import datetime

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
total = torch.ones(1)
dist.all_reduce(total)
print(f"waiting {total.item():.0f}", flush=True)
store.wait(["go"], datetime.timedelta(minutes=10))
print("going", flush=True)
total = torch.ones(1)
dist.all_reduce(total)
store.add("done", 1)
dist.barrier()
print(f"sum {total.item():.0f} done {store.add('done', 0)}", flush=True)
dist.destroy_process_group()
