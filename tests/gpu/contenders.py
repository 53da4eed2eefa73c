"""The two sides of the GPU benchmarks: dp through dpctl, and PyTorch in processes of its own. Each method
measures once and returns (value, conditions). If there is no figure, it raises Missing with the reason."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import jobs
import library_checks
from checks import Failed, Limit, Skipped, last_lines, run, stop, succeed
from measure import Missing, cost, rounded
from product_checks import Product
from reading import until
from sample_data import write_noise_images, write_tokens

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
SECONDS_MAX = 600
OUT_OF_MEMORY = 3
# The first batch that fits counts; each side has its own.
BATCHES = (64, 48, 32, 16, 8)
# The batch of the CNN where only one batch is measured.
SMALL_BATCH = 128


class Sizes:
    """What is measured: the real thing, or tiny sizes that try the scripts on CPUs. Also how long all of it may take."""

    def __init__(self, rehearse, minutes=None):
        self._all = None if minutes is None else Limit(60 * minutes)
        self.slots = jobs.CPU if rehearse else jobs.GPU
        self.device = "cpu" if rehearse else "cuda"
        self.tiny = rehearse
        self.gpt = jobs.SMALL_GPT if rehearse else jobs.GPT2
        self.batches = (4,) if rehearse else BATCHES
        self.steps, self.rounds = (3, 2) if rehearse else (20, 3)
        self.images = 640 if rehearse else 60000

    def limit(self):
        """The limit of one measurement."""
        return Limit(min(SECONDS_MAX, max(0, self._all.remaining())) if self._all else SECONDS_MAX)

    def precision(self, wanted):
        """The precision of our side: CPUs have only one."""
        return "float32" if self.tiny else wanted


def no_caches(folder):
    """Variables with fresh cache folders: no plan and no compiled kernel of an earlier run is found."""
    return {name: tempfile.mkdtemp(dir=folder)
            for name in ("XDG_CACHE_HOME", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR")}


def first_that_fits(batches, measure):
    """`measure(batch)` returns None if the memory does not suffice. Returns (batch, figure)."""
    for batch in batches:
        figure = measure(batch)
        if figure is not None:
            return batch, figure
    raise Missing(f"not even a batch of {batches[-1]} fits into memory")


def write_text(folder, sizes, batch):
    """The file of tokens that both sides train on, for one epoch of the batch: all kinds of token occur."""
    return write_tokens(pathlib.Path(folder) / f"tokens-{batch}.bin", batch * sizes.steps * sizes.gpt["context"] + 1,
                        sizes.gpt["vocabulary"], kinds=sizes.gpt["vocabulary"])


class Ours:
    """dp, by dpctl run --local."""

    def __init__(self, programs, folder, sizes):
        self.programs, self.sizes = programs, sizes
        try:
            self.product = Product(programs, folder, sizes.slots)
        except (Failed, Skipped) as why:
            raise Missing(str(why)) from None
        self.batches, self.warm = sizes.batches, False

    def _rate(self, job):
        """Images or tokens a second, the median of the epochs after the first, which warms up. None if the memory
        does not suffice."""
        try:
            output, _ = self.product.run(job, self.sizes.limit())
        except Failed as why:
            if re.search(r"out of memory|too little memory|RESOURCE_EXHAUSTED", str(why)):
                return None
            raise
        rates = [float(rate) for rate in re.findall(r"epoch \d+/\d+.* ([0-9.]+) \w+/s", output)][1:]
        if not rates:
            raise Missing(f"no epoch behind the first told its rate\n{last_lines(output)}")
        return statistics.median(rates)

    def _gpt_rate(self, batch, precision):
        sizes = self.sizes
        tokens = write_text(self.product.folder, sizes, batch)
        return self._rate(jobs.gpt(f"gpt-{batch}", tokens, sizes.slots, batch, epochs=1 + sizes.rounds,
                                   precision=precision))

    def gpt_tokens_per_second(self):
        precision = self.sizes.precision("bf16")
        batch, rate = first_that_fits(self.batches, lambda batch: self._gpt_rate(batch, precision))
        self.batches = (batch,)
        return rate, {"batch": batch, "precision": precision}

    def _cnn(self, name, batch, **train):
        data = self.product.folder / "noise"
        if not data.exists():
            write_noise_images(data, self.sizes.images)
        return jobs.cnn(name, data, self.sizes.slots, globalBatchSize=batch, evaluateEvery=0, **train)

    def _cnn_rate(self, name, batch, **train):
        rate = self._rate(self._cnn(name, batch, epochs=1 + self.sizes.rounds, **train))
        if rate is None:
            raise Missing(f"a batch of {batch} does not fit into memory")
        return rate

    def cnn_images_per_second(self, batch, precision):
        precision = self.sizes.precision(precision)
        rate = self._cnn_rate(f"cnn-{batch}-{precision}", batch, precision=precision)
        return rate, {"batch": batch, "precision": precision}

    def _reducer_percent(self, program, environment, *options):
        told = succeed([self.programs.test(program), *options], self.sizes.limit(), environment)
        times = json.loads(told.splitlines()[-1])
        return 100 * (times["with_ddp_ms"] / times["without_ms"] - 1)

    def _local_percent(self):
        tiny = ("--batch", "16", "--steps", "10", "--rounds", "3") if self.sizes.tiny else ()
        return self._reducer_percent("ddp_overhead", self.product.environment(), "--device", self.sizes.device, *tiny)

    def ddp_overhead_nccl_percent(self):
        """Over a group of NCCL's. A rehearsal takes fakes of the libraries, and a device whose kernels run on the
        host."""
        if not self.sizes.tiny:
            return cost(self._reducer_percent("ddp_overhead", self.product.environment(), "--group", "nccl")), {}
        options = ("--group", "nccl", "--preset", "mlp", "--batch", "2", "--steps", "2", "--rounds", "1")
        environment = library_checks.environment(self.programs, 0, rehearses=True, shares=False)
        return cost(self._reducer_percent("ddp_overhead_on_host", environment, *options)), {"device": "a fake"}

    def ddp_overhead_percent(self):
        """Also returns the steps of the product itself, from two jobs: a rank alone uses the machinery only if a trace
        is wanted."""
        traced = str(self.product.folder / "trace.jsonl")
        step, reduced = (1000 * SMALL_BATCH / self._cnn_rate(f"cnn-{name}", SMALL_BATCH, **train)
                         for name, train in (("alone", {}), ("traced", {"trace": traced})))
        about = {"step_ms": rounded(step), "step_with_reducer_ms": rounded(reduced),
                 "steps_are": "of two jobs, one behind the other: what else the machine did then is in them; the cost is "
                              "of turns within one process"}
        return cost(self._local_percent()), about

    def _first_step(self, env):
        job = self._cnn("first-step", SMALL_BATCH, maxSteps=1, epochs=1)
        path = self.product.folder / "first-step.json"
        path.write_text(json.dumps(job))
        return seconds_until([self.product.dpctl, "run", "--local", path], "finished 1 steps", env,
                             self.sizes.limit())

    def seconds_to_first_step(self, cold):
        if cold:
            return self._first_step({**self.product.environment(), **no_caches(self.product.folder)}), {}
        if not self.warm:
            self._first_step(self.product.environment())
            self.warm = True
        return self._first_step(self.product.environment()), {}


def version_of_torch(python):
    """(version, None), or (None, the reason)."""
    try:
        code, output = run([python, "-c", "import torch; print(torch.__version__)"], Limit(SECONDS_MAX))
    except (Failed, OSError) as why:
        return None, f"{python} cannot be asked for PyTorch: {why}"
    said = (output.strip().splitlines() or ["no reason"])[-1]  # after any warnings
    return (said, None) if code == 0 else (None, f"{python} has no PyTorch: {said}")


class PyTorch:
    """PyTorch's processes get this process's environment unchanged, and find CUDA by themselves."""

    def __init__(self, python, folder, sizes):
        self.python, self.folder, self.sizes = python, folder, sizes
        self.version, self.missing = version_of_torch(python)
        self.batches = {}

    def _ask(self, script, *options):
        """The figures that the script measured; None if the memory does not suffice."""
        if self.missing:
            raise Missing(self.missing)
        command = [self.python, PEERS / script, "--device", self.sizes.device, "--rounds", self.sizes.rounds,
                   *options]
        code, output = run(command, self.sizes.limit())
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
                             "--tokens", write_text(self.folder, self.sizes, batch), *tiny)
            return told and told["tokens_per_second"]

        batch, found = first_that_fits(self.batches.get(variant, self.sizes.batches), rate)
        self.batches[variant] = (batch,)
        return found, {"batch": batch, "precision": "bf16", "torch": self.version}

    def _cnn(self, batch, *options):
        told = self._ask("cnn.py", "--images", self.sizes.images, "--batch", batch, *options)
        if told is None:
            raise Missing(f"a batch of {batch} does not fit into memory")
        return told

    def cnn_images_per_second(self, variant, batch, precision):
        told = self._cnn(batch, "--variant", variant, "--precision", precision)
        return told["images_per_second"], {"batch": batch, "precision": precision, "torch": self.version}

    def ddp_overhead_percent(self):
        plain, wrapped = self._cnn(SMALL_BATCH), self._cnn(SMALL_BATCH, "--ddp")
        return cost(100 * (wrapped["step_ms"] / plain["step_ms"] - 1)), {"torch": self.version}

    def seconds_to_first_step(self, cold):
        if self.missing:
            raise Missing(self.missing)
        command = [self.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1",
                   PEERS / "cnn.py", "--ddp", "--steps-max", "1", "--device", self.sizes.device,
                   "--images", self.sizes.images]
        env = {**os.environ, **(no_caches(self.folder) if cold else {})}
        return seconds_until(command, "first step", env, self.sizes.limit()), {"torch": self.version}


def seconds_until(command, text, env, limit):
    """The seconds from starting a program until it prints `text`; the program then runs to its end."""
    began = time.perf_counter()
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=env)
    try:
        until(text, process, limit)
        seconds = time.perf_counter() - began
        process.communicate(timeout=limit.left())
        return seconds
    except subprocess.TimeoutExpired:
        raise Missing(f"it did not end after '{text}'") from None
    finally:
        stop(process)
        process.stdout.close()
