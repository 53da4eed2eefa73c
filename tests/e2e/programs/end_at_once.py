"""Runs a program, and exits without shutting the interpreter down.

    end_at_once.py PROGRAM [ARGUMENT...]

PyTorch 2.15 keeps the threads of a DistributedDataParallel model's group, whatever the program
releases. A thread that drops the last reference to a tensor during the interpreter's shutdown
aborts the process.
"""

import os
import runpy
import sys

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
