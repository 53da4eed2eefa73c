"""Our TCPStore client against PyTorch's own servers, by the contract of every store.

    pytorch_server_test.py TEST     with the python3 whose torch is to be the server

TEST is pytorch_server_test. It asks for a new server for each of its cases.
"""

import datetime
import os
import socket
import subprocess
import sys
import threading

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("torch is not installed for", sys.executable)
    sys.exit(77)

MAJOR = int(torch.__version__.split(".")[0])
# The options of each server, and the cases that it can pass: only libuv's server has queues.
SERVERS = ([({}, "A/StoreConformance.*")] if MAJOR < 2 else
           [({"use_libuv": False}, "C/StoreConformance.*:C/StoreAppendConformance.*"),
            ({"use_libuv": True}, "C/*")])


def host(listener, options):
    """Answers each connection with the port of a new server, until the listener is closed."""
    servers = []  # kept: 1.13's server burns a core if it is closed before its client
    while True:
        try:
            asker, _ = listener.accept()
        except OSError:
            return
        servers.append(dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                                     timeout=datetime.timedelta(minutes=5), **options))
        with asker:
            asker.sendall(b"%d\n" % servers[-1].port)


def passes(options, cases):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=host, args=(listener, options), daemon=True).start()
        environment = {**os.environ, "DP_PYTORCH_SERVERS": str(listener.getsockname()[1])}
        done = subprocess.run([sys.argv[1], f"--gtest_filter={cases}", "--gtest_brief=1"],
                              env=environment)
        listener.shutdown(socket.SHUT_RDWR)
    return done.returncode == 0


def main():
    failed = [options for options, cases in SERVERS if not passes(options, cases)]
    print(f"torch {torch.__version__}: servers that failed: {failed or 'none'}", flush=True)
    os._exit(1 if failed else 0)  # exit without waiting for the servers' clients


if __name__ == "__main__":
    main()
