"""Runs a program, and ends without taking the interpreter down.

    end_at_once.py PROGRAM [ARGUMENT...]

PyTorch 2.15 keeps the threads of a group that a DistributedDataParallel model was made in, whatever its
program lets go of; one that drops a tensor last while the interpreter ends aborts the process.
"""

import os
import runpy
import sys

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
