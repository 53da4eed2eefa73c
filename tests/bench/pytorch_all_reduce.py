"""The peer of the sums: PyTorch's all_reduce over the Gloo of its wheel, on loopback. torchrun's environment starts a
process for each rank; rank 0 prints {bytes: [p50, p99]} in microseconds.

    pytorch_all_reduce.py BYTES...
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

# Bytes of one size in all, and the most sums of it.
TOTAL = 400 << 20
MOST = 400


def microseconds(data, times):
    took = []
    for _ in range(times):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(data)
        took.append((time.perf_counter() - begin) * 1e6)
    return took


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {}
    for size in map(int, sys.argv[1:]):
        data = torch.zeros(size // 4)
        microseconds(data, 2)
        took = sorted(microseconds(data, max(4, min(MOST, TOTAL // size))))
        found[size] = [statistics.median(took), took[int(0.99 * (len(took) - 1))]]
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
