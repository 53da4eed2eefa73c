"""Hosts PyTorch's own TCPStore server. Prints its port, and exits when its standard input ends.

    pytorch_store.py legacy|libuv
"""

import datetime
import sys

import torch.distributed as dist

store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                      timeout=datetime.timedelta(minutes=10), use_libuv=sys.argv[1] == "libuv")
print(store.port, flush=True)
sys.stdin.read()
