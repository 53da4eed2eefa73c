"""The two sides of the GPU benchmarks: dp through dpctl, and PyTorch in processes of its own. Each method
measures once; it raises Missing, with the reason, where there is no figure."""

import json
import pathlib
import re
import statistics
import subprocess
import time

import gpu_host
import jobs
from checks import Failed, Limit, Skipped, last_lines, run, stop
from measure import Missing
from product_checks import Product
from reading import until
from sample_data import write_noise_images, write_tokens

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
SECONDS_MAX = 600
OUT_OF_MEMORY = 3
# The first that fits; each side has its own.
BATCHES = (64, 48, 32, 16, 8)


class Sizes:
    """What is measured: the real thing, or what proves the scripts on CPUs."""

    def __init__(self, rehearse):
        self.slots = jobs.CPU if rehearse else jobs.GPU
        self.device = "cpu" if rehearse else "cuda"
        self.tiny = rehearse
        self.gpt = jobs.SMALL_GPT if rehearse else jobs.GPT2
        self.batches = (4,) if rehearse else BATCHES
        self.steps, self.rounds = (3, 2) if rehearse else (20, 3)
        self.images = 640 if rehearse else 60000
        self.precision = "float32" if rehearse else "bf16"


def first_that_fits(batches, measure):
    """`measure(batch)` answers None where the memory does not do. Returns (batch, figure)."""
    for batch in batches:
        figure = measure(batch)
        if figure is not None:
            return batch, figure
    raise Missing(f"not even a batch of {batches[-1]} fits into memory")


class Ours:
    """dpctl run --local."""

    def __init__(self, programs, folder, sizes):
        self.programs, self.sizes = programs, sizes
        try:
            self.product = Product(programs, folder, sizes.slots)
        except Skipped as why:
            raise Missing(str(why)) from None
        self.batches = sizes.batches

    def _epochs(self, job):
        """Images or tokens a second of each epoch but the first, which warms up; None where memory does not do."""
        try:
            output, _ = self.product.run(job, Limit(SECONDS_MAX))
        except Failed as why:
            if re.search(r"out of memory|RESOURCE_EXHAUSTED", str(why)):
                return None
            raise Missing(str(why)) from None
        return [float(rate) for rate in re.findall(r"epoch \d+/\d+.* ([0-9.]+) \w+/s", output)][1:]

    def _gpt_rate(self, batch):
        sizes = self.sizes
        windows = batch * sizes.steps
        tokens = write_tokens(self.product.folder / f"tokens-{batch}.bin", windows * sizes.gpt["context"] + 1,
                              sizes.gpt["vocabulary"])
        rates = self._epochs(jobs.gpt(f"gpt-{batch}", tokens, sizes.slots, batch, epochs=1 + sizes.rounds,
                                      precision=sizes.precision))
        return None if rates is None else statistics.median(rates)

    def gpt_tokens_per_second(self):
        batch, rate = first_that_fits(self.batches, self._gpt_rate)
        self.batches = (batch,)
        return rate

    def _cnn(self, name, batch, **train):
        data = self.product.folder / "noise"
        if not data.exists():
            write_noise_images(data, self.sizes.images)
        return jobs.cnn(name, data, self.sizes.slots, globalBatchSize=batch, evaluateEvery=0, **train)

    def cnn_images_per_second(self, batch):
        rates = self._epochs(self._cnn(f"cnn-{batch}", batch, epochs=1 + self.sizes.rounds))
        if not rates:
            raise Missing("no epoch told its rate")
        return statistics.median(rates)

    def ddp_overhead_percent(self):
        command = [self.programs.test("ddp_overhead"), "--device", self.sizes.device]
        if self.sizes.tiny:
            command += ["--batch", "16", "--steps", "10", "--rounds", "3"]
        code, output = run(command, Limit(SECONDS_MAX), gpu_host.environment())
        if code != 0:
            raise Missing(last_lines(output))
        times = json.loads(output.splitlines()[-1])
        return 100 * (times["with_ddp_ms"] / times["without_ms"] - 1)

    def seconds_to_first_step(self):
        job = self._cnn("first-step", 128, maxSteps=1, epochs=1)
        path = self.product.folder / "first-step.json"
        path.write_text(json.dumps(job))
        return seconds_until([self.product.dpctl, "run", "--local", path], "finished 1 steps",
                             gpu_host.environment())


class PyTorch:
    """Its processes see the environment as it is, and find CUDA by themselves."""

    def __init__(self, python, sizes):
        self.python, self.sizes = python, sizes
        code, output = run([python, "-c", "import torch; print(torch.__version__)"], Limit(SECONDS_MAX))
        why = (output.strip().splitlines() or ["no reason"])[-1]
        self.missing = None if code == 0 else f"{python} has no PyTorch: {why}"
        self.version = output.strip()
        self.batches = {}

    def _ask(self, script, *options):
        """What the script measured; None where memory does not do."""
        if self.missing:
            raise Missing(self.missing)
        command = [self.python, PEERS / script, "--device", self.sizes.device, "--rounds", self.sizes.rounds,
                   *options]
        try:
            code, output = run(command, Limit(SECONDS_MAX))
        except Failed as why:
            raise Missing(str(why)) from None
        if code == OUT_OF_MEMORY:
            return None
        found = [line for line in output.splitlines() if line.startswith("{")]
        if code != 0 or not found:
            raise Missing(f"{script} ended with {code}\n{last_lines(output)}")
        return json.loads(found[-1])

    def gpt_tokens_per_second(self, variant):
        tiny = ["--tiny"] if self.sizes.tiny else []

        def rate(batch):
            told = self._ask("gpt2.py", "--variant", variant, "--batch", batch, "--steps", self.sizes.steps,
                             *tiny)
            return told and told["tokens_per_second"]

        batch, found = first_that_fits(self.batches.get(variant, self.sizes.batches), rate)
        self.batches[variant] = (batch,)
        return found

    def _cnn(self, *options):
        return self._ask("cnn.py", "--images", self.sizes.images, *options)

    def cnn_images_per_second(self, variant, batch):
        return self._cnn("--variant", variant, "--batch", batch)["images_per_second"]

    def ddp_overhead_percent(self):
        plain, wrapped = self._cnn("--batch", 128), self._cnn("--batch", 128, "--ddp")
        return 100 * (wrapped["step_ms"] / plain["step_ms"] - 1)

    def seconds_to_first_step(self):
        if self.missing:
            raise Missing(self.missing)
        command = [self.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1",
                   PEERS / "cnn.py", "--ddp", "--steps-max", "1", "--device", self.sizes.device,
                   "--images", self.sizes.images]
        return seconds_until(command, "first step")


def seconds_until(command, text, env=None):
    """From starting a program until it prints `text`; it is let come to its end."""
    limit = Limit(SECONDS_MAX)
    began = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=env)
    try:
        until(text, process, limit)
        seconds = time.perf_counter() - began
        process.communicate(timeout=limit.left())
        return seconds
    except (Failed, subprocess.TimeoutExpired) as why:
        raise Missing(str(why)) from None
    finally:
        stop(process)
        process.stdout.close()
