"""The interpreter with PyTorch that runs unmodified PyTorch programs."""

import functools
import os
import subprocess

# The distribution's python3-torch is for this one; DP_PYTHON names another.
PYTHON = os.environ.get("DP_PYTHON", "/usr/bin/python3")
# Importing torch alone takes seconds on a busy machine.
WITHIN_S = 240


@functools.cache
def version(package="torch"):
    """The version of PyTorch, or of a package beside it; empty if it is not installed. Read without
    the import, which would take each test a second."""
    done = subprocess.run([PYTHON, "-c", f"import importlib.metadata as packages; print(packages.version('{package}'))"],
                          capture_output=True, text=True)
    return done.stdout.strip()


def why_not(package="torch"):
    """Why no program with this package can be run here; empty if one can."""
    return "" if version(package) else f"needs python3-{package}: {PYTHON} has no package {package}"
