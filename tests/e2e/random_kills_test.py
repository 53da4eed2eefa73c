"""Random parts of training jobs are killed again and again; each ends with the bits of one that nothing
happened to. Tells how long the training stood still each time, from the blow to the next step.

KILLS (20) is how many blows, SEED (the time) which ones.
"""

import concurrent.futures
import contextlib
import os
import random
import statistics
import time
import unittest

import testbed
from progress import Progress

KILLS = int(os.environ.get("KILLS", "20"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
JOBS_AT_ONCE = 2
# Enough for most of the blows, each of which waits for some steps; another job takes the rest.
EPOCHS_PER_BLOW = 24
JOBS_MAX = 8
STEPS_BETWEEN_BLOWS = (1, 40)


class Storm:
    """Jobs, one after the other, until all blows have struck."""

    def __init__(self, blows, seed):
        self.blows, self.random = blows, random.Random(seed)
        self.epochs = EPOCHS_PER_BLOW * blows
        self.stood_still = []

    def run(self):
        """How each of the jobs has ended: (SHA-256 of the weights or what is wrong, the steps told)."""
        ends = []
        while len(self.stood_still) < self.blows and len(ends) < JOBS_MAX:
            ends.append(self.run_job())
            if ends[-1][1] is None:
                break
        return ends

    def run_job(self):
        with testbed.Testbed() as self.bed:
            self.job = self.bed.submit(self.bed.job(epochs=self.epochs, every_steps=5))
            self.progress = Progress(self.bed, self.job)
            while len(self.stood_still) < self.blows:
                generation, step = self.progress.latest
                pause = self.random.randint(*STEPS_BETWEEN_BLOWS)
                before = self.progress.wait(lambda now: now >= (generation, step + pause))
                if before is None or not self.blow(before):
                    break  # it was faster
            if self.bed.wait(self.job, testbed.LONG_S) != 0:
                return self.bed.dpctl("describe", self.job).stdout, None
            return self.bed.weights_hash(), self.bed.history(self.job)

    def blow(self, before):
        began = time.monotonic()
        part = self.random.choice([self.kill_rank, self.kill_rank, self.kill_daemon,
                                   self.kill_coordinator])
        part()
        news = self.progress.wait(lambda now: now > before and self.is_news(part, before, now))
        if news is not None:
            self.stood_still.append((part.__name__, time.monotonic() - began))
        return news is not None

    def is_news(self, part, before, now):
        return part == self.kill_coordinator or now[0] > before[0]

    def kill_rank(self):
        rank = self.random.randrange(testbed.RANKS)
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(self.bed.rank_pid(self.job, rank), 9)

    def kill_daemon(self):
        name = self.bed.describe(self.job)["ranks"][self.random.randrange(testbed.RANKS)]["worker"]
        self.bed.daemons[name].kill()
        self.bed.add_daemon(name)

    def kill_coordinator(self):
        self.bed.restart_coordinator()


class RandomKillsTest(unittest.TestCase):
    def test_every_job_ends_with_the_bits_of_an_undisturbed_run(self):
        blows = KILLS // JOBS_AT_ONCE
        weights, history = testbed.undisturbed(epochs=EPOCHS_PER_BLOW * blows)
        storms = [Storm(blows, SEED + number) for number in range(JOBS_AT_ONCE)]
        with concurrent.futures.ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
            ends = list(pool.map(Storm.run, storms))
        for end, told in sum(ends, []):
            self.assertEqual(end, weights, f"SEED={SEED}")
            self.assertTrue(all(history[step] == told[step] for step in told), f"SEED={SEED}")
        stood_still = [one for storm in storms for one in storm.stood_still]
        self.assertEqual(len(stood_still), KILLS, f"SEED={SEED}: too fast to be struck")
        report(stood_still)


def report(stood_still):
    for name in ("", "kill_rank", "kill_daemon", "kill_coordinator"):
        times = sorted(seconds for part, seconds in stood_still if part.startswith(name))
        if times:
            print(f"{name or 'all':>16}: {len(times):3} blows, to the next step "
                  f"median {statistics.median(times):.2f} s, "
                  f"p99 {times[min(len(times) - 1, int(0.99 * len(times)))]:.2f} s")


if __name__ == "__main__":
    unittest.main()
