"""Checks of the whole product on one GPU: dpctl, coordinator, worker daemon and trainer."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import signal
import sys
import tempfile

import gpu_host
import jobs
from checks import Failed, last_lines, run
from group_checks import place
from sample_data import write_tokens

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

GPT_EPOCHS, GPT_STEPS_PER_EPOCH = 6, 5
GPT_BATCH = 8
# The mean loss must fall by at least this much from the first epoch to the last, in nats.
GPT_LOSS_FALLS = 1.0
KILLED_AT_STEP = 10
# How far the losses of two ranks may be from those of one that takes the same batches, as a share. Both are float32's,
# added in different orders; so few steps do not amplify the difference.
FIRST_STEPS, AS_ONE_TOLERANCE = 10, 1e-3
# A GPU that two daemons share is never free of the other daemon's memory.
ANY_MEMORY_MIB = 1 << 20


@dataclasses.dataclass
class Worker:
    """What a daemon of this host, without options, reports of its GPUs."""
    gpus: int
    trains_on_gpus: bool
    log: str

    def __str__(self):
        told = [line for event in ("gpus_listed", "cuda_trainer") for line in self.log.splitlines() if event in line]
        return f"{self.gpus} GPUs\n" + "\n".join(told)


@functools.cache
def worker_of(programs):
    """The daemon is asked once: jobs are pointless if it has no GPU to train on."""
    from kit.cluster import Cluster  # needs the programs' folder, which is set by now
    with Cluster() as cluster:
        worker = cluster.worker(slots=1, env=gpu_host.environment())
        [told] = json.loads(cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
        return Worker(told["gpus"], told["trainsOnGpus"], worker.log())


class Product:
    """Runs jobs with the programs under test, on slots of one kind. The ranks keep the fastest plans of a GPU's library
    in `folder`: earlier runs on this host decide nothing."""

    def __init__(self, programs, folder, slots=jobs.GPU):
        for name in ("dpctl", "dp-coordinator", "dp-worker"):
            programs.program(name)
        os.environ["DP_BIN"] = str(programs.bin)
        if slots == jobs.GPU:
            programs.program("dp-trainer-cuda")
            if not worker_of(programs).trains_on_gpus:
                raise Failed(f"the daemon does not train on GPUs; it says: {worker_of(programs)}")
        self.dpctl, self.folder, self.slots = programs.program("dpctl"), pathlib.Path(folder), slots

    def environment(self, cache="cache"):
        """The environment of a cluster whose ranks keep their plans in the folder of this name."""
        return {**gpu_host.environment(), "XDG_CACHE_HOME": str(self.folder / cache)}

    def weights(self, name):
        return self.folder / f"{name}.safetensors"

    def run(self, job, limit):
        """Runs dpctl run --local; returns (its output, SHA-256 of the weights)."""
        name = job["name"]
        job["train"]["output"] = {"weights": str(self.weights(name))}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(job))
        code, output = run([self.dpctl, "run", "--local", path], limit, self.environment())
        if code != 0:
            raise Failed(f"dpctl run --local ended with {code}\n{last_lines(output)}")
        return output, digest(self.weights(name))

    def warm_up(self, job, limit):
        """Runs a part of the job. It chooses the fastest plans by the clock, once, so that later runs take the same
        plans and have the same bits."""
        train = {**job["train"], "epochs": 1}
        self.run({**job, "name": f"{job['name']}-warm-up", "train": train}, limit)

    def images(self):
        from kit.idx_data import write_idx
        return write_idx(self.folder / "images")

    def cnn(self, name):
        return jobs.cnn(name, self.images(), self.slots)

    def gpt(self, name, **train):
        size = jobs.GPT2 if self.slots == jobs.GPU else jobs.SMALL_GPT
        windows = GPT_BATCH * GPT_STEPS_PER_EPOCH
        tokens = write_tokens(self.folder / "tokens.bin", windows * size["context"] + 1, size["vocabulary"],
                              kinds=min(64, size["vocabulary"] // 8))
        return jobs.gpt(name, tokens, self.slots, GPT_BATCH, epochs=GPT_EPOCHS, **train)


@contextlib.contextmanager
def product(programs, slots=jobs.GPU):
    with tempfile.TemporaryDirectory(prefix="dp-gpu-") as folder:
        yield Product(programs, folder, slots)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def losses(output):
    """The losses of the epochs that rank 0 reported, in order."""
    return [float(loss) for loss in re.findall(r"epoch \d+/\d+\s+loss (\S+)", output)]


def same_bits(first, second):
    if first != second:
        raise Failed(f"two runs of one job differ: SHA-256 {first} and {second}")


def worker_trains(programs, limit, slots=jobs.GPU):
    """The daemon of this host reports that it trains on GPUs."""
    with product(programs, slots):
        return str(worker_of(programs))


def step_losses(cluster, job):
    lines = cluster.dpctl("logs", job, "--metrics").stdout.splitlines()
    told = [json.loads(line[line.index("{"):]) for line in lines]
    return [metric["loss"] for metric in told if metric["event"] == "step"]


def trained_as_one(losses_of_two, losses_of_one):
    """Gradients that are not averaged, or that are added up instead, show from the second step on."""
    first = list(zip(losses_of_two[:FIRST_STEPS], losses_of_one[:FIRST_STEPS]))
    if len(first) < FIRST_STEPS or len(losses_of_two) != len(losses_of_one):
        raise Failed(f"losses of {len(losses_of_two)} steps on two ranks, of {len(losses_of_one)} on one")
    for number, (two, one) in enumerate(first, start=1):
        if not abs(two - one) <= AS_ONE_TOLERANCE * one:
            raise Failed(f"the loss of step {number} is {two} on two ranks and {one} on one")


def captured(output, ranks=1):
    """Fails unless all ranks report that their steps are graphs."""
    refused = [line for line in output.splitlines() if "gpu_graph_refused" in line]
    if refused or output.count("gpu_graph_captured") < ranks:
        raise Failed("\n".join(["steps are not taken as a graph", *refused]))
    return ", steps as a graph"


def fused(output):
    """Fails if cuDNN did not compute attention in bf16: a rank then logs the reason and uses a slower one."""
    missing = [line for line in output.splitlines() if "gpu_attention_not_fused" in line]
    if missing:
        raise Failed("\n".join(["attention is not cuDNN's", *missing]))


def cnn_learns(programs, limit, slots=jobs.GPU):
    with product(programs, slots) as dp:
        dp.warm_up(dp.cnn("cnn"), limit)
        output, first = dp.run(dp.cnn("cnn"), limit)
        accuracy = re.findall(r"test_accuracy=(\S+)", output)
        if not accuracy or float(accuracy[-1]) < 0.9:
            raise Failed(f"test accuracy {accuracy}, not 0.9 or more\n{last_lines(output)}")
        same_bits(first, dp.run(dp.cnn("cnn-again"), limit)[1])
        graph = captured(output) if slots == jobs.GPU else ""
        return f"test accuracy {accuracy[-1]}, twice the weights {first[:12]}{graph}"


def gpt_learns(programs, limit, slots=jobs.GPU, **train):
    with product(programs, slots) as dp:
        dp.warm_up(dp.gpt("gpt", **train), limit)
        output, first = dp.run(dp.gpt("gpt", **train), limit)
        told = losses(output)
        if len(told) != GPT_EPOCHS or told[0] - told[-1] < GPT_LOSS_FALLS:
            raise Failed(f"the losses of {GPT_EPOCHS} epochs are {told}\n{last_lines(output)}")
        fused(output)
        twice = ""
        if train.get("deterministic", True):
            same_bits(first, dp.run(dp.gpt("gpt-again", **train), limit)[1])
            twice = f", twice the weights {first[:12]}"
        graph = captured(output) if slots == jobs.GPU else ""
        return f"loss {told[0]} to {told[-1]}{twice}{graph}"


@contextlib.contextmanager
def two_daemons(dp):
    """A cluster of two daemons that share the GPU; to NCCL each is a host of its own."""
    from kit.cluster import Cluster  # needs the programs' folder, which Product has set
    with Cluster(lease="2s") as cluster:
        for number in range(2):
            cluster.worker(slots=1, name=f"node{number}", env={**dp.environment(), **place(number)},
                           options=["--gpu-free-mib", ANY_MEMORY_MIB])
        yield cluster


def two_rank_job(dp, name, stops_at=None, ranks=2):
    job = jobs.cnn(name, dp.images(), dp.slots, ranks=ranks, epochs=1,
                   bucketCapMb=0.2,  # several buckets, so that a step is cut
                   output={"weights": str(dp.weights(name))},
                   checkpoint={"dir": str(dp.folder / "checkpoints"), "everySteps": 4})
    job.update(grace="1s", detectWithin="10s", restart={"maxRestarts": 10})
    if stops_at:
        job["env"] = {"TRAINER_STOPS_AT": stops_at}
    return job


def wait(cluster, job, limit):
    left = max(1, int(limit.left()))
    if cluster.wait(job, left) != 0:
        told = cluster.dpctl("describe", job).stdout + cluster.dpctl("logs", job, "--tail", "20").stdout
        raise Failed(f"job {job} did not succeed\n{last_lines(told)}")


def kill_in_all_reduce(programs, limit, slots=jobs.GPU):
    """Two ranks train as one does. One of them is killed while the other is in an all-reduce with it. The job resumes
    from its checkpoint and ends with the weights of an undisturbed job."""
    with product(programs, slots) as dp, two_daemons(dp) as cluster:
        told = {}
        for name, ranks in (("alone", 1), ("warm-up", 2), ("undisturbed", 2)):
            job = cluster.submit(two_rank_job(dp, name, ranks=ranks))
            wait(cluster, job, limit)
            told[name] = step_losses(cluster, job)
        graphs = captured(cluster.dpctl("logs", job).stdout, ranks=2) if slots == jobs.GPU else ""
        trained_as_one(told["undisturbed"], told["alone"])
        job = cluster.submit(two_rank_job(dp, "struck", f"1:all-reduce:{KILLED_AT_STEP}"))
        cluster.follow_until(job, "fault point", limit.left())
        os.kill(cluster.rank_pid(job, 1), signal.SIGKILL)
        wait(cluster, job, limit)
        generations = cluster.describe(job)["generation"]
        if generations < 2:
            raise Failed("the job was not started again")
        same_bits(digest(dp.weights("undisturbed")), digest(dp.weights("struck")))
        return f"generation {generations}, the weights of an undisturbed run, whose losses are one rank's{graphs}"
