"""The interpreter with PyTorch that runs unmodified PyTorch programs."""

import functools
import os
import subprocess

# The distribution's python3-torch is for this one; DP_PYTHON names another.
PYTHON = os.environ.get("DP_PYTHON", "/usr/bin/python3")
# Importing torch alone takes seconds on a busy machine.
WITHIN_S = 240


@functools.cache
def version():
    """PyTorch's version; empty if it is not installed. Read without the import, which would take
    each test a second."""
    done = subprocess.run([PYTHON, "-c", "import importlib.metadata as packages; print(packages.version('torch'))"],
                          capture_output=True, text=True)
    return done.stdout.strip()


def why_not():
    """Why no program with PyTorch can be run here; empty if one can."""
    return "" if version() else f"needs python3-torch: {PYTHON} has no package torch"
