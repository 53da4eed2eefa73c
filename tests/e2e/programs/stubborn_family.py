"""A program that gets out of sight in every way it can: it forks, calls setsid, forks twice and leaves
the child to init, and all of it ignores SIGTERM. Each process writes its number into the folder that it
is given; the first one says READY once all run."""

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
