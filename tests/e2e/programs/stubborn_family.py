"""A program that hides its processes in every way: it forks, calls setsid, and forks twice to
leave a child to init. All processes ignore SIGTERM. Each creates a file named after its pid in
the given folder. The first process prints READY once all run."""

import os
import pathlib
import signal
import sys

folder = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ready, running = os.pipe()


def appear():
    (folder / str(os.getpid())).touch()
    os.write(running, b".")


def stay():
    appear()
    while True:
        signal.pause()


if os.fork() == 0:
    stay()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay()
    stay()
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        stay()
    os._exit(0)
os.waitpid(child, 0)
appear()
for _ in range(5):
    os.read(ready, 1)
print("READY", flush=True)
while True:
    signal.pause()
