"""A cluster for tests that break things while a job trains, and a job with a known result."""

import functools
import hashlib
import json
import os
import signal

from kit.cluster import BIN, Cluster
from kit.idx_data import train_job, write_idx
from kit.leftovers import closed_on_error

RANKS = 3
STEPS_PER_EPOCH = 10
SAMPLES_PER_EPOCH = 60 * STEPS_PER_EPOCH
LEASE = "2s"
EPOCHS = 6
# For a job of many blows.
LONG_S = 900
# Too slow to memorise the labels, even in thousands of steps.
OPTIMIZER = {"sgd": {"learningRate": 0.01, "momentum": 0.9}}
MODEL = {"layers": [
    {"conv2d": {"out": 4, "kernel": 3, "padding": 1}}, {"relu": {}}, {"maxPool2d": {"kernel": 2}},
    {"flatten": {}}, {"dropout": {"p": 0.3}}, {"linear": {"out": 10}}]}


class Testbed(Cluster):
    """One worker of one slot for each rank, and `spare` more."""

    def __init__(self, ranks=RANKS, spare=1, **options):
        super().__init__(**{"lease": LEASE, **options})
        self.ranks = ranks
        self.daemons = {}
        with closed_on_error(self):
            self.data = write_idx(self.dir / "data", train=SAMPLES_PER_EPOCH, test=100,
                                  learnable=False)
            for number in range(1, ranks + spare + 1):
                self.add_daemon(f"node{number}")

    def add_daemon(self, name):
        self.daemons[name] = self.worker(slots=1, name=name)

    @property
    def weights(self):
        return self.dir / "weights.safetensors"

    def weights_hash(self):
        return hashlib.sha256(self.weights.read_bytes()).hexdigest()

    def job(self, epochs=EPOCHS, every_steps=4, stops_at=None):
        job = train_job(self.data, ranks=self.ranks, epochs=epochs, evaluateEvery=0, model=MODEL,
                        optimizer=OPTIMIZER,
                        output={"weights": str(self.weights)},
                        checkpoint={"dir": str(self.dir / "checkpoints"),
                                    "everySteps": every_steps})
        job["grace"] = "1s"
        job["detectWithin"] = "3s"
        job["restart"] = {"maxRestarts": 1000, "infra": 1000, "hang": 1000, "startup": 10}
        if stops_at:
            job["env"] = {"TRAINER_STOPS_AT": stops_at}
        return job

    def daemon_of(self, job, rank):
        return self.daemons[self.describe(job)["ranks"][rank]["worker"]]

    def metrics(self, job):
        """(generation, metric) of everything that rank 0 has reported, in the order of
        generations."""
        told = []
        for generation in range(1, self.describe(job)["generation"] + 1):
            lines = self.dpctl("logs", job, "--metrics", "--generation", generation, "--rank", "0",
                               "-o", "json", check=0).stdout.splitlines()
            told += [(generation, json.loads(json.loads(line)["line"])) for line in lines]
        return told

    def history(self, job):
        """The committed history: {step: (loss, samples)}. A step repeated by a later generation
        counts as the later one."""
        return {metric["step"]: (metric["loss"], metric["samples"])
                for _, metric in self.metrics(job) if metric["event"] == "step"}

    def checkpoints(self, job):
        return json.loads(self.dpctl("checkpoints", job, "-o", "json", check=0).stdout)["items"]

    def free_workers(self):
        table = json.loads(self.dpctl("workers", "-o", "json", check=0).stdout)["items"]
        return {one["name"] for one in table if one["state"] == "READY" and one["freeSlots"] > 0}

    def all_are_free(self):
        return self.free_workers() == set(self.daemons)

    def coordinator_answers(self):
        return self.dpctl("ps", "--timeout", "1s").returncode == 0


class TestbedOnHosts(Testbed):
    """The same with a host for each worker; host 0 is for the coordinator and dpctl."""

    def __init__(self, hosts, **options):
        self.hosts = hosts
        super().__init__(**options)

    def start_coordinator(self, listen, **how):
        address = f"{self.hosts.address(0)}:{listen.split(':')[-1]}"
        options = [f"--{name.replace('_', '-')}={value}"
                   for name, value in self._coordinator_options.items()]
        return self.program(BIN / "dp-coordinator", "--listen", address, *options,
                            "--data-dir", self.dir / "coordinator", prefix=self.hosts.prefix(0))

    def dpctl_command(self):
        return [*self.hosts.prefix(0), *super().dpctl_command()]

    def add_daemon(self, name):
        prefix = self.hosts.prefix(self.number_of(name))
        self.daemons[name] = self.worker(slots=1, name=name, prefix=prefix)

    def number_of(self, name):
        """The number of a worker's host."""
        return int(name.removeprefix("node"))


@functools.cache
def undisturbed(epochs=EPOCHS, **options):
    """The result of the undisturbed job: the hash of its weights, and its history."""
    with Testbed(**options) as bed:
        job = bed.submit(bed.job(epochs=epochs))
        assert bed.wait(job, LONG_S) == 0, bed.dpctl("logs", job).stdout
        history = bed.history(job)
        check_samples(history, epochs)
        return bed.weights_hash(), history


def check_samples(history, epochs):
    """Every sample is used once an epoch. A step's loss identifies its samples, to the last bit."""
    assert sorted(history) == list(range(1, epochs * STEPS_PER_EPOCH + 1)), sorted(history)
    for epoch in range(epochs):
        steps = range(epoch * STEPS_PER_EPOCH + 1, (epoch + 1) * STEPS_PER_EPOCH + 1)
        assert sum(history[step][1] for step in steps) == SAMPLES_PER_EPOCH, epoch + 1
        assert len({history[step][0] for step in steps}) == STEPS_PER_EPOCH, "losses do not tell steps apart"


def resume(pid):
    """Continues a stopped process, which may be gone."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
