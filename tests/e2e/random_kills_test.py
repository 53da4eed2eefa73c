"""Kills or stops random parts of training jobs again and again. Each job must end with the bits of
an undisturbed job, and no daemon may exit by itself. Prints for each kind of blow the time to the
training's next step. The time counts from the restart of the killed part or, if nothing is
restarted, from the blow.

KILLS (24) is the number of blows, JOBS_AT_ONCE (2) the number of concurrent jobs, SEED (the
time) selects the blows.
"""

import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import random
import signal
import statistics
import threading
import time
import unittest

from kit import testbed
from kit.cluster import eventually
from kit.progress import Progress

KILLS = int(os.environ.get("KILLS", "24"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
JOBS_AT_ONCE = int(os.environ.get("JOBS_AT_ONCE", "2"))
# Two daemons with one rank each, and no spare one. Lease and detectWithin have their default
# values.
CLUSTER = {"ranks": 2, "spare": 0, "lease": "5s"}
DETECT_WITHIN = "30s"
# Enough for most blows, each of which waits for some steps; another job takes the rest.
EPOCHS_PER_BLOW = 8
JOBS_MAX = 8
STEPS_BETWEEN_BLOWS = (1, 40)
# Shorter and longer than the lease.
STOP_S = (0.1, 8)


class Storm:
    """Jobs, one after the other, until all blows have struck."""

    def __init__(self, blows, seed):
        self.blows, self.random = blows, random.Random(seed)
        self.epochs = EPOCHS_PER_BLOW * blows
        self.took = []  # (kind, seconds to the next step)
        kinds = list(KINDS)
        self.random.shuffle(kinds)
        self.kinds = itertools.cycle(kinds)  # a few blows already cover all kinds

    def run(self):
        """The end of each job: (SHA-256 of the weights or an error, the reported steps)."""
        ends = []
        while len(self.took) < self.blows and len(ends) < JOBS_MAX:
            ends.append(self.run_job())
            if ends[-1][1] is None:
                break
        return ends

    def run_job(self):
        with testbed.Testbed(**CLUSTER) as self.bed:
            job = self.bed.job(epochs=self.epochs, every_steps=5)
            self.job = self.bed.submit({**job, "detectWithin": DETECT_WITHIN})
            self.progress = Progress(self.bed, self.job)
            while len(self.took) < self.blows:
                generation, step = self.progress.latest
                pause = self.random.randint(*STEPS_BETWEEN_BLOWS)
                before = self.progress.wait(lambda now: now >= (generation, step + pause))
                if before is None or not self.blow(before):
                    break  # the job was faster
            if self.bed.wait(self.job, testbed.LONG_S) != 0:
                return self.bed.dpctl("describe", self.job).stdout, None
            for daemon in self.bed.daemons.values():
                assert daemon.process.poll() is None, daemon.log()
            return self.bed.weights_hash(), self.bed.history(self.job)

    def blow(self, before):
        kind = next(self.kinds)
        began = getattr(self, kind)() or time.time()
        generation = before[0] + (1 if KINDS[kind] else 0)
        news = self.progress.first(
            lambda told, at: told[0] >= generation and told > before and at > began)
        if news is not None:
            self.took.append((kind, news - began))
        return news is not None

    # Each returns the time from which to count, or None.

    def rank(self):
        self.kill_ranks([self.random.randrange(self.bed.ranks)])

    def all_ranks(self):
        self.kill_ranks(range(self.bed.ranks))

    def guard(self):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(parent_of(self.pid_of(self.random.randrange(self.bed.ranks))), signal.SIGKILL)

    def daemon(self):
        return self.restart([self.random.choice(list(self.bed.daemons))])

    def all_daemons(self):
        return self.restart(list(self.bed.daemons))

    def coordinator(self):
        return self.restart([], coordinator=True)

    def daemon_and_coordinator(self):
        return self.restart([self.random.choice(list(self.bed.daemons))], coordinator=True)

    def stop_and_cont(self):
        pid = self.random.choice([self.pid_of(self.random.randrange(self.bed.ranks)),
                                  self.bed.coordinator.pid,
                                  self.random.choice(list(self.bed.daemons.values())).pid])
        with contextlib.suppress(ProcessLookupError):  # it has just exited
            os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(self.random.uniform(*STOP_S))  # the duration of the fault
        began = time.time()
        testbed.resume(pid)
        return began

    def kill_ranks(self, ranks):
        for pid in [self.pid_of(rank) for rank in ranks]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pid_of(self, rank):
        """Waits for the rank's pid: the generation of the blow before may be ending only now."""
        def found():
            ranks = self.bed.describe(self.job)["ranks"]
            return ranks[rank]["pid"] if rank < len(ranks) else 0
        pid = eventually(found)
        assert pid, self.bed.dpctl("describe", self.job).stdout
        return pid

    def restart(self, daemons, coordinator=False):
        for name in daemons:
            self.bed.daemons[name].kill()
        if coordinator:
            self.bed.coordinator.kill()
        began = time.time()
        if coordinator:
            self.bed.coordinator = self.bed.start_coordinator(self.bed.address, wait=False)
        for name in daemons:
            self.bed.daemons[name] = self.bed.worker_in_background(slots=1, name=name)
        return began


# Whether the next step belongs to a later generation.
KINDS = {"rank": True, "all_ranks": True, "guard": True, "daemon": True, "all_daemons": True,
         "coordinator": False, "daemon_and_coordinator": True, "stop_and_cont": False}


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class RandomKillsTest(unittest.TestCase):
    def test_every_job_ends_with_the_bits_of_an_undisturbed_run(self):
        print(f"SEED={SEED}", flush=True)
        blows = KILLS // JOBS_AT_ONCE
        weights, history = testbed.undisturbed(epochs=EPOCHS_PER_BLOW * blows, **CLUSTER)
        storms = [Storm(blows, SEED + number) for number in range(JOBS_AT_ONCE)]
        with concurrent.futures.ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
            ends = list(pool.map(Storm.run, storms))
        took = [one for storm in storms for one in storm.took]
        report(took)
        for end, told in sum(ends, []):
            self.assertEqual(end, weights, f"SEED={SEED}")
            self.assertTrue(all(history[step] == told[step] for step in told), f"SEED={SEED}")
        self.assertEqual(len(took), blows * JOBS_AT_ONCE, f"SEED={SEED}: too fast to be struck")


def report(took):
    for name in ["all", *KINDS]:
        times = sorted(seconds for kind, seconds in took if name in ("all", kind))
        if times:
            p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
            print(f"{name:>22}: {len(times):3} blows, to the next step "
                  f"median {statistics.median(times):.2f} s, p99 {p99:.2f} s, "
                  f"most {times[-1]:.2f} s", flush=True)


if __name__ == "__main__":
    unittest.main()
