"""kubectl with kustomize and the Kubernetes schemas, in a virtual environment in the build
folder."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def install(build):
    """Returns the environment's folder; installs it on the first call. Raises
    subprocess.CalledProcessError if it cannot be installed."""
    wanted = (HERE / "requirements.txt").read_text()
    venv = build / "deploy-venv"
    ready = venv / "installed"
    if not ready.exists() or ready.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", "-r", HERE / "requirements.txt"],
                       check=True)
        ready.write_text(wanted)
    return venv
