"""Each part of a training job is killed, stopped or cut off in each phase of the training; the job ends
with the bits of one that nothing happened to.

A rank stops itself at the phase (worker/trainer/fault_point.h), so that the blow falls exactly there.
KILL_MATRIX=full runs every case; otherwise a choice of them that has each part, blow and phase.
"""

import concurrent.futures
import os
import signal
import unittest

import hosts as test_hosts
import testbed
from cluster import eventually

PHASES = {"join": 0, "load": 0, "step": 10, "all-reduce": 10, "write": 8, "register": 8}
# Of rank 0, which saves.
SAVING = ("write", "register")
AT_ONCE = 4

FULL = os.environ.get("KILL_MATRIX") == "full"


class Case:
    """One blow: `part` is rank, daemon or coordinator; `blow` is kill or stop."""

    def __init__(self, part, blow, phase):
        self.part, self.blow, self.phase = part, blow, phase
        self.rank = 0 if phase in SAVING else 1

    def __str__(self):
        return f"{self.blow} {self.part} in {self.phase}"

    def run(self, expected):
        """Returns what is wrong; empty: nothing."""
        with testbed.Testbed() as bed:
            stops_at = f"{self.rank}:{self.phase}:{PHASES[self.phase]}"
            job = bed.submit(bed.job(stops_at=stops_at))
            bed.follow_until(job, "fault point")
            pid = bed.rank_pid(job, self.rank)
            heal = getattr(self, f"{self.blow}_{self.part}")(bed, job, pid)
            if bed.wait(job) != 0:
                return f"{self}: {bed.dpctl('describe', job).stdout}{bed.dpctl('logs', job).stdout}"
            if heal:
                heal()
            return self.judge(bed, job, expected)

    def judge(self, bed, job, expected):
        weights, history = expected
        if bed.weights_hash() != weights:
            return f"{self}: other weights"
        if bed.describe(job)["weights"]["sha256"] != weights:
            return f"{self}: another hash is on record than the file has"
        told = bed.history(job)
        if any(history[step] != told[step] for step in told):
            return f"{self}: a step was taken with other samples or weights"
        # What a daemon had not sent when it died is not in the log.
        if self.part != "daemon" and told != history:
            return f"{self}: steps {sorted(set(history) - set(told))} are missing"
        latest = bed.checkpoints(job)[0]
        if latest["step"] != max(history):
            return f"{self}: the latest checkpoint is {latest}"
        return ""

    def kill_rank(self, bed, job, pid):
        os.kill(pid, signal.SIGKILL)

    def stop_rank(self, bed, job, pid):
        """It stands still already."""

    def kill_daemon(self, bed, job, pid):
        bed.daemon_of(job, self.rank).kill()

    def stop_daemon(self, bed, job, pid):
        """Its rank goes on with what it was at, once others have taken its place."""
        daemon = bed.daemon_of(job, self.rank)
        daemon.send(signal.SIGSTOP)

        def heal():
            before = bed.checkpoints(job)
            testbed.resume(pid)
            daemon.send(signal.SIGCONT)
            assert eventually(lambda: len(bed.free_workers()) == 4), "the daemon does not come back"
            assert bed.checkpoints(job) == before, "a fenced rank has changed the record"
        return heal

    def kill_coordinator(self, bed, job, pid):
        bed.restart_coordinator()
        testbed.resume(pid)

    def stop_coordinator(self, bed, job, pid):
        bed.coordinator.send(signal.SIGSTOP)
        testbed.resume(pid)
        assert eventually(lambda: not bed.coordinator_answers())
        bed.coordinator.send(signal.SIGCONT)


def cases():
    every = [Case(part, blow, phase) for part in ("rank", "daemon", "coordinator")
             for blow in ("kill", "stop") for phase in PHASES]
    # A rank that never joins is found by the rendezvous' own deadline, which is minutes.
    every = [case for case in every
             if (case.part, case.blow, case.phase) != ("rank", "stop", "join")]
    # Each part, each blow and each phase is among them.
    return every if FULL else [case for number, case in enumerate(every)
                               if number % 3 == number // 6 % 3]


class KillMatrixTest(unittest.TestCase):
    maxDiff = None

    def test_each_ends_with_the_bits_of_an_undisturbed_run(self):
        expected = testbed.undisturbed()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for wrong in pool.map(lambda case: case.run(expected), cases()):
                with self.subTest():
                    self.assertEqual(wrong, "")


REASON = test_hosts.why_not()


class Cut:
    """The host of a rank loses its link while the rank is in a phase, and has it back when others
    have brought the job to its end."""

    def __init__(self, phase):
        self.phase = phase
        self.rank = 0 if phase in SAVING else 1

    def run(self, expected):
        with test_hosts.Hosts(5) as hosts, testbed.TestbedOnHosts(hosts) as bed:
            job = bed.submit(bed.job(stops_at=f"{self.rank}:{self.phase}:{PHASES[self.phase]}"))
            bed.follow_until(job, "fault point")
            rank = bed.describe(job)["ranks"][self.rank]
            hosts.cut(bed.number_of(rank["worker"]))
            testbed.resume(rank["pid"])
            if bed.wait(job) != 0:
                return f"cut in {self.phase}: {bed.dpctl('describe', job).stdout}"
            before = bed.checkpoints(job)
            hosts.heal(bed.number_of(rank["worker"]))
            if not eventually(lambda: len(bed.free_workers()) == 4):
                return f"cut in {self.phase}: the worker does not come back"
            if bed.checkpoints(job) != before or bed.weights_hash() != expected[0]:
                return f"cut in {self.phase}: other weights, or a fenced rank has changed the record"
            return ""


@unittest.skipIf(REASON, REASON)
class CutTest(unittest.TestCase):
    def test_a_host_that_is_cut_off_is_done_without_and_does_no_harm(self):
        expected = testbed.undisturbed()
        for phase in PHASES if FULL else ("all-reduce", "register"):
            with self.subTest(phase):
                self.assertEqual(Cut(phase).run(expected), "")


if __name__ == "__main__":
    unittest.main()
