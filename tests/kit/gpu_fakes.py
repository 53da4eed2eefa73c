"""Stand-ins for a host with GPUs: the driver's library, the trainer's self-check, and the real
trainer with its kernels on the host."""

import json

from kit.cluster import BIN

NVML = BIN.parent / "tests/fake_nvml"
PASSES = "echo 'driver: CUDA 13.0'; exit 0"
TRAINER = """#!/bin/sh
if [ "$1" = --self-check ]; then {check}; fi
{run}
"""
# The real trainer, with a device whose kernels run on the host.
TRAINER_ON_HOST = BIN.parent / "tests/dp_trainer_on_host"


def why_no_nvml():
    return "" if (NVML / "libnvidia-ml.so.1").exists() else "dp_fake_nvml has not been built"


def why_no_trainer_on_host():
    return "" if TRAINER_ON_HOST.exists() else "dp_trainer_on_host has not been built: no CUDA headers"


def losses(cluster, job):
    """The loss of each step of the job's latest generation."""
    lines = cluster.dpctl("logs", job, "--metrics").stdout.splitlines()
    told = [json.loads(line[line.index("{"):]) for line in lines]
    return [metric["loss"] for metric in told if metric["event"] == "step"]
