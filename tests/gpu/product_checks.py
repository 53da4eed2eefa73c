"""Checks of the whole product on one GPU: dpctl, coordinator, worker daemon and trainer."""

import contextlib
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

GPT_EPOCHS, GPT_STEPS_PER_EPOCH = 6, 5
GPT_BATCH = 8
# By how much the mean loss of the last epoch is below that of the first at least, in nats.
GPT_LOSS_FALLS = 1.0
KILLED_AT_STEP = 10
# A GPU that two daemons share is never free of the other's memory.
ANY_MEMORY_MIB = 1 << 20


class Product:
    """Runs jobs with the programs under test, on slots of one kind."""

    def __init__(self, programs, folder, slots=jobs.GPU):
        for name in ("dpctl", "dp-coordinator", "dp-worker"):
            programs.program(name)
        if slots == jobs.GPU:
            programs.program("dp-trainer-cuda")
        os.environ["DP_BIN"] = str(programs.bin)
        self.dpctl, self.folder, self.slots = programs.program("dpctl"), pathlib.Path(folder), slots

    def weights(self, name):
        return self.folder / f"{name}.safetensors"

    def run(self, job, limit):
        """dpctl run --local; returns (what it printed, SHA-256 of the weights)."""
        name = job["name"]
        job["train"]["output"] = {"weights": str(self.weights(name))}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(job))
        code, output = run([self.dpctl, "run", "--local", path], limit, gpu_host.environment())
        if code != 0:
            raise Failed(f"dpctl run --local ended with {code}\n{last_lines(output)}")
        return output, digest(self.weights(name))

    def images(self):
        from idx_data import write_idx
        return write_idx(self.folder / "images")

    def cnn(self, name):
        return jobs.cnn(name, self.images(), self.slots)

    def gpt(self, name):
        size = jobs.GPT2 if self.slots == jobs.GPU else jobs.SMALL_GPT
        windows = GPT_BATCH * GPT_STEPS_PER_EPOCH
        tokens = write_tokens(self.folder / "tokens.bin", windows * size["context"] + 1, size["vocabulary"],
                              kinds=min(64, size["vocabulary"] // 8))
        return jobs.gpt(name, tokens, self.slots, GPT_BATCH, epochs=GPT_EPOCHS)


@contextlib.contextmanager
def product(programs, slots=jobs.GPU):
    with tempfile.TemporaryDirectory(prefix="dp-gpu-") as folder:
        yield Product(programs, folder, slots)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def losses(output):
    """Of the epochs that rank 0 told of, in their order."""
    return [float(loss) for loss in re.findall(r"epoch \d+/\d+\s+loss (\S+)", output)]


def same_bits(first, second):
    if first != second:
        raise Failed(f"two runs of one job differ: SHA-256 {first} and {second}")


def cnn_learns(programs, limit, slots=jobs.GPU):
    with product(programs, slots) as dp:
        output, first = dp.run(dp.cnn("cnn"), limit)
        accuracy = re.findall(r"test_accuracy=(\S+)", output)
        if not accuracy or float(accuracy[-1]) < 0.9:
            raise Failed(f"test accuracy {accuracy}, not 0.9 or more\n{last_lines(output)}")
        same_bits(first, dp.run(dp.cnn("cnn-again"), limit)[1])
        return f"test accuracy {accuracy[-1]}, twice the weights {first[:12]}"


def gpt_learns(programs, limit, slots=jobs.GPU):
    with product(programs, slots) as dp:
        output, first = dp.run(dp.gpt("gpt"), limit)
        told = losses(output)
        if len(told) != GPT_EPOCHS or told[0] - told[-1] < GPT_LOSS_FALLS:
            raise Failed(f"the losses of {GPT_EPOCHS} epochs are {told}\n{last_lines(output)}")
        same_bits(first, dp.run(dp.gpt("gpt-again"), limit)[1])
        return f"loss {told[0]} to {told[-1]}, twice the weights {first[:12]}"


@contextlib.contextmanager
def two_daemons():
    """A cluster whose two daemons share the GPU, each a host of its own to NCCL."""
    from cluster import Cluster  # it asks for the programs, which Product has made known
    with Cluster(lease="2s") as cluster:
        for number in range(2):
            cluster.worker(slots=1, name=f"node{number}", env={**gpu_host.environment(), **place(number)},
                           options=["--gpu-free-mib", ANY_MEMORY_MIB])
        yield cluster


def two_rank_job(dp, stops_at=None):
    name = "struck" if stops_at else "undisturbed"
    job = jobs.cnn(name, dp.images(), dp.slots, ranks=2, epochs=1,
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
    """A rank is killed while the others are in an all-reduce with it; the job goes on from its checkpoint
    and ends with the weights of one that nothing happened to."""
    with product(programs, slots) as dp, two_daemons() as cluster:
        wait(cluster, cluster.submit(two_rank_job(dp)), limit)
        job = cluster.submit(two_rank_job(dp, f"1:all-reduce:{KILLED_AT_STEP}"))
        cluster.follow_until(job, "fault point", limit.left())
        os.kill(cluster.rank_pid(job, 1), signal.SIGKILL)
        wait(cluster, job, limit)
        generations = cluster.describe(job)["generation"]
        if generations < 2:
            raise Failed("the job was not started again")
        same_bits(digest(dp.weights("undisturbed")), digest(dp.weights("struck")))
        return f"generation {generations}, the weights of an undisturbed run"
