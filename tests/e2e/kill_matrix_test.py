"""Kills, stops or cuts off each part of a training job in each phase of the training. The job must
end with the bits of an undisturbed job.

A rank stops itself at the phase (worker/trainer/fault_point.h), so the blow falls exactly there.
KILL_MATRIX=full runs every case with 3 ranks and with 4. By default a selection runs: it strikes
each part in each phase of every job, and contains each blow and phase.
"""

import concurrent.futures
import os
import signal
import unittest

from kit import hosts as test_hosts
from kit import testbed
from kit.cluster import eventually

LAST_STEP = testbed.EPOCHS * testbed.STEPS_PER_EPOCH
# By name: fault point, step, rank. Rank 0 saves. In the last three phases the other ranks have no
# work left.
PHASES = {
    "join": ("join", 0, 1), "load": ("load", 0, 1), "step": ("step", 10, 1),
    "all-reduce": ("all-reduce", 10, 1), "write": ("write", 8, 0), "register": ("register", 8, 0),
    "last write": ("write", LAST_STEP, 0), "publish": ("publish", 0, 0),
    "place": ("place", 0, 0),
}
RANKS = (3, 4)
AT_ONCE = 4

# The selection: blow by phase, for each part. Each part has the first four phases and one around a
# checkpoint.
CHOICE = {
    "rank": {"join": "kill", "load": "stop", "step": "kill", "all-reduce": "stop",
             "register": "kill", "last write": "stop"},
    "daemon": {"join": "stop", "load": "kill", "step": "stop", "all-reduce": "kill",
               "write": "stop", "publish": "kill"},
    "coordinator": {"join": "kill", "load": "stop", "step": "kill", "all-reduce": "stop",
                    "write": "kill", "place": "stop"},
}

FULL = os.environ.get("KILL_MATRIX") == "full"


class Blow:
    """One fault of a job at a phase."""

    def __init__(self, phase, ranks):
        self.phase, self.ranks = phase, ranks
        self.point, self.step, self.rank = PHASES[phase]

    def begin(self, bed):
        """Returns the job, stopped at the phase, and the rank to strike."""
        job = bed.submit(bed.job(stops_at=f"{self.rank}:{self.point}:{self.step}"))
        bed.follow_until(job, "fault point")
        return job, bed.describe(job)["ranks"][self.rank]

    def told(self, bed, job):
        return f"{self}: {bed.dpctl('describe', job).stdout}{bed.dpctl('logs', job).stdout}"

    def judge(self, bed, job, expected, all_logs=True):
        """Returns what is wrong; empty if nothing is."""
        weights, history = expected
        if bed.weights_hash() != weights:
            return f"{self}: other weights"
        if bed.describe(job)["weights"]["sha256"] != weights:
            return f"{self}: another hash is on record than the file has"
        told = bed.history(job)
        if any(history[step] != told[step] for step in told):
            return f"{self}: a step was taken with other samples or weights"
        if all_logs and told != history:
            return f"{self}: steps {sorted(set(history) - set(told))} are missing"
        latest = bed.checkpoints(job)[0]
        if latest["step"] != LAST_STEP:
            return f"{self}: the latest checkpoint is {latest}"
        return ""


class Case(Blow):
    """A signal: `part` is rank, daemon or coordinator; `blow` is kill or stop."""

    def __init__(self, part, blow, phase, ranks):
        super().__init__(phase, ranks)
        self.part, self.blow = part, blow

    def __str__(self):
        return f"{self.blow} {self.part} in {self.phase} of {self.ranks} ranks"

    def run(self, expected):
        with testbed.Testbed(ranks=self.ranks) as bed:
            job, struck = self.begin(bed)
            heal = getattr(self, f"{self.blow}_{self.part}")(bed, job, struck)
            if bed.wait(job) != 0:
                return self.told(bed, job)
            if heal:
                heal()
            # Output that a daemon had not sent when it died is not in the log.
            wrong = self.judge(bed, job, expected[self.ranks], all_logs=self.part != "daemon")
            return wrong or self.judge_generation(bed, job, struck)

    def judge_generation(self, bed, job, struck):
        described = bed.describe(job)
        worker = described["ranks"][self.rank]["worker"]
        if self.part == "coordinator":
            right = described["generation"] == 1
        else:
            right = described["generation"] > 1 and (worker == struck["worker"]) == (self.part == "rank")
        return "" if right else f"{self}: generation {described['generation']} on {worker}, {described.get('pastFailures')}"

    def kill_rank(self, bed, job, struck):
        os.kill(struck["pid"], signal.SIGKILL)

    def stop_rank(self, bed, job, struck):
        """Does nothing: the rank has stopped already."""

    def kill_daemon(self, bed, job, struck):
        bed.daemons[struck["worker"]].kill()

    def stop_daemon(self, bed, job, struck):
        """The stopped daemon's rank continues only after other ranks have taken its place."""
        daemon = bed.daemons[struck["worker"]]
        daemon.freeze()

        def heal():
            before = bed.checkpoints(job)
            testbed.resume(struck["pid"])
            daemon.thaw()
            assert eventually(bed.all_are_free), "the daemon does not come back"
            assert bed.checkpoints(job) == before, "a fenced rank has changed the record"
        return heal

    def kill_coordinator(self, bed, job, struck):
        bed.restart_coordinator()
        testbed.resume(struck["pid"])

    def stop_coordinator(self, bed, job, struck):
        bed.coordinator.freeze()
        testbed.resume(struck["pid"])
        assert eventually(lambda: not bed.coordinator_answers())
        bed.coordinator.thaw()


class Cut(Blow):
    """The host of a rank, or of the coordinator, loses its link."""

    def __init__(self, part, phase, ranks):
        super().__init__(phase, ranks)
        self.part = part

    def __str__(self):
        return f"cut {self.part} off in {self.phase} of {self.ranks} ranks"

    def run(self, expected):
        with test_hosts.Hosts(self.ranks + 2) as hosts, \
                testbed.TestbedOnHosts(hosts, ranks=self.ranks) as bed:
            job, struck = self.begin(bed)
            wrong = getattr(self, f"cut_{self.part}")(hosts, bed, job, struck)
            return wrong or self.judge(bed, job, expected[self.ranks], all_logs=self.part != "rank")

    def cut_rank(self, hosts, bed, job, struck):
        """Restores the link once other ranks have finished the job."""
        number = bed.number_of(struck["worker"])
        hosts.cut(number)
        testbed.resume(struck["pid"])
        if bed.wait(job) != 0:
            return self.told(bed, job)
        before = bed.checkpoints(job)
        hosts.heal(number)
        if not eventually(bed.all_are_free):
            return f"{self}: the worker does not come back"
        if bed.checkpoints(job) != before:
            return f"{self}: a fenced rank has changed the record"
        after = bed.describe(job)
        if after["ranks"][self.rank]["worker"] == struck["worker"]:
            return f"{self}: it ended where it began"
        return ""

    def cut_coordinator(self, hosts, bed, job, struck):
        """No worker is given up, and the job's generation continues."""
        hosts.unplug(0)
        testbed.resume(struck["pid"])
        if not eventually(lambda: "evictions_held" in bed.coordinator.log()):
            return f"{self}: nobody was missed\n{bed.coordinator.log()}"
        hosts.plug(0)
        if bed.wait(job) != 0:
            return self.told(bed, job)
        described = bed.describe(job)
        return "" if described["generation"] == 1 else \
            f"{self}: generation {described['generation']}, {described.get('pastFailures')}"


def signals():
    if FULL:
        return [Case(part, blow, phase, ranks) for part in CHOICE for blow in ("kill", "stop")
                for phase in PHASES for ranks in RANKS]
    return [Case(part, blow, phase, RANKS[(row + column) % len(RANKS)])
            for row, (part, blows) in enumerate(CHOICE.items())
            for column, (phase, blow) in enumerate(blows.items())]


def cuts():
    if FULL:
        return [Cut(part, phase, ranks) for part in ("rank", "coordinator")
                for phase in PHASES for ranks in RANKS]
    return [Cut("rank", "all-reduce", 4), Cut("rank", "register", 3), Cut("coordinator", "step", 3)]


class MatrixCase(unittest.TestCase):
    maxDiff = None

    def strike(self, blows):
        right = {ranks: testbed.undisturbed(ranks=ranks) for ranks in RANKS}
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for wrong in pool.map(lambda blow: blow.run(right), blows):
                with self.subTest():
                    self.assertEqual(wrong, "")


class ChoiceTest(unittest.TestCase):
    def test_each_part_is_struck_in_each_phase_and_each_blow_phase_and_size_comes(self):
        for part, blows in CHOICE.items():
            self.assertLessEqual({"join", "load", "step", "all-reduce"}, set(blows), part)
            self.assertTrue({"write", "register"} & set(blows), part)
            self.assertEqual(set(blows.values()), {"kill", "stop"}, part)
        self.assertEqual({phase for blows in CHOICE.values() for phase in blows}, set(PHASES))
        self.assertEqual({(case.part, case.ranks) for case in signals()},
                         {(part, ranks) for part in CHOICE for ranks in RANKS})


class KillMatrixTest(MatrixCase):
    def test_each_ends_with_the_bits_of_an_undisturbed_run(self):
        self.strike(signals())


REASON = test_hosts.why_not()


@unittest.skipIf(REASON, REASON)
class CutTest(MatrixCase):
    def test_a_host_that_is_cut_off_is_done_without_and_does_no_harm(self):
        self.strike(cuts())


if __name__ == "__main__":
    unittest.main()
