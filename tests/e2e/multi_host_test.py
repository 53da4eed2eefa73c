"""Three workers on hosts of their own that are cut off, healed, drained and restarted during
jobs."""

import json
import pathlib
import unittest

from kit import hosts as test_hosts
from kit import pytorch, testbed
from kit.cluster import eventually, free_ports
from kit.progress import Progress
from kit.pytorch import PYTHON, WITHIN_S
from kit.rank_lines import lines_of

REASON = test_hosts.why_not()
PROGRAMS = pathlib.Path(__file__).parent / "programs"
# Enough epochs for several blows, each some steps after the one before.
LONG = 60


class MultiHostCase(unittest.TestCase):
    """Ranks on hosts 1 to 3, the coordinator on host 0, and `spare` spare hosts."""

    def start(self, spare=0, **options):
        self.hosts = self.enterContext(test_hosts.Hosts(testbed.RANKS + spare + 1))
        self.bed = self.enterContext(testbed.TestbedOnHosts(self.hosts, spare=spare, **options))

    def generation(self, job, number):
        """The job, once all ranks of that generation or a later one run."""
        def there():
            described = self.bed.describe(job)
            at_work = described["state"] == "RUNNING" and described["generation"] >= number
            return described if at_work else None
        described = eventually(there)
        self.assertTrue(described, self.bed.dpctl("describe", job).stdout)
        return described

    def at_step(self, step, **job):
        """Returns a job whose rank 1 is stopped at that step, and that rank's description."""
        name = self.bed.submit(self.bed.job(stops_at=f"1:step:{step}", **job))
        self.bed.follow_until(name, "fault point")
        return name, self.bed.describe(name)["ranks"][1]

    def assert_undisturbed(self, job, epochs=testbed.EPOCHS, all_logs=True):
        self.assertEqual(self.bed.wait(job, testbed.LONG_S), 0, self.bed.dpctl("describe", job).stdout)
        weights, history = testbed.undisturbed(epochs=epochs)
        self.assertEqual(self.bed.weights_hash(), weights)
        told = self.bed.history(job)
        self.assertEqual({step: history[step] for step in told}, told)
        if all_logs:
            self.assertEqual(sorted(told), sorted(history))


@unittest.skipIf(REASON, REASON)
class TrainingTest(MultiHostCase):
    def test_a_job_without_a_spare_host_waits_for_the_one_that_is_cut_off(self):
        self.start()
        job, struck = self.at_step(10)
        host = self.bed.number_of(struck["worker"])
        self.hosts.cut(host)
        testbed.resume(struck["pid"])
        self.assertTrue(eventually(lambda: self.bed.describe(job)["state"] == "PENDING"))
        self.hosts.heal(host)
        self.assert_undisturbed(job, all_logs=False)
        after = self.bed.describe(job)
        self.assertEqual(after["generation"], 2)
        self.assertEqual(after["ranks"][1]["worker"], struck["worker"])
        self.assertEqual(after["pastFailures"][0]["failureClass"], "infra")

    def test_a_coordinator_that_is_cut_off_from_all_gives_nobody_up(self):
        self.start()
        job, struck = self.at_step(10)
        self.hosts.unplug(0)
        testbed.resume(struck["pid"])
        self.assertTrue(eventually(lambda: "evictions_held" in self.bed.coordinator.log()))
        self.hosts.plug(0)
        self.assert_undisturbed(job)
        self.assertEqual(self.bed.describe(job)["generation"], 1, self.bed.coordinator.log())
        self.assertTrue(eventually(self.bed.all_are_free))
        self.assertNotIn("event=worker_lost", self.bed.coordinator.log())

    def test_a_drained_host_hands_over_to_a_spare_one_at_a_checkpoint(self):
        self.start(spare=1)
        job, struck = self.at_step(10, epochs=LONG, every_steps=1000)
        self.bed.dpctl("drain", struck["worker"], "--reason", "new disks", "--hand-over", check=0)
        testbed.resume(struck["pid"])
        after = self.generation(job, 2)
        self.assertNotIn(struck["worker"], [rank["worker"] for rank in after["ranks"]])
        self.assertEqual(after["pastFailures"][0]["failureClass"], "preempt")
        self.bed.dpctl("drain", struck["worker"], "--reason", "new disks", "--wait", check=0)
        self.assert_undisturbed(job, epochs=LONG)
        # The lines of generation 1 still name the host that the rank has left.
        told = [json.loads(line) for line in
                self.bed.dpctl("logs", job, "--generation", 1, "--rank", 1, "-o", "json", check=0).stdout.splitlines()]
        self.assertEqual({line["host"] for line in told}, {struck["host"]})
        self.assertNotEqual(struck["host"], self.bed.describe(job)["ranks"][1]["host"])
        resumed = [metric["step"] for _, metric in self.bed.metrics(job) if metric["event"] == "resume"]
        self.assertEqual(len(resumed), 1, self.bed.describe(job).get("pastFailures"))
        self.assertGreaterEqual(resumed[0], 10)

    def test_all_daemons_and_the_coordinator_are_restarted_one_after_another_under_a_job(self):
        self.start()
        job = self.bed.submit(self.bed.job(epochs=LONG))
        progress = Progress(self.bed, job)
        for number, name in enumerate(self.bed.daemons):
            latest = progress.latest
            self.assertTrue(progress.wait(lambda now, at=latest: now > at), "it was faster")
            self.assertEqual(self.bed.daemons[name].stop(), 0)
            self.bed.add_daemon(name)
            self.generation(job, number + 2)
        before = self.generation(job, 1)
        self.assertEqual(self.bed.coordinator.stop(), 0)
        self.bed.coordinator = self.bed.start_coordinator(self.bed.address)
        self.assert_undisturbed(job, LONG, all_logs=False)
        after = self.bed.describe(job)
        self.assertEqual(after["generation"], before["generation"])
        self.assertTrue(all(past["failureClass"] == "infra" for past in after["pastFailures"]))


@unittest.skipIf(REASON or pytorch.why_not(), REASON or pytorch.why_not())
class PytorchTest(MultiHostCase):
    def awaited(self, job):
        """The key that each waiting rank waits for, with PyTorch's prefixes."""
        lines = self.bed.dpctl("store", "waiters", job, check=0).stdout.splitlines()[1:]
        return [line.split()[1] for line in lines if not line.startswith("rendezvous")]

    def test_a_partition_that_heals_within_the_lease_is_not_noticed(self):
        self.start(lease="300s", store_ports=free_ports(20))
        job = self.bed.submit({"apiVersion": "dp/v1", "kind": "Job", "name": "gated", "ranks": 3,
                               "command": {"argv": [PYTHON, str(PROGRAMS / "gated.py")]}})
        self.bed.follow_until_each(job, "waiting 3", 3, WITHIN_S)
        self.assertTrue(eventually(lambda: len(self.awaited(job)) == 3))
        go, *_ = self.awaited(job)
        before = self.bed.describe(job)
        cut = self.bed.number_of(before["ranks"][2]["worker"])
        self.hosts.unplug(cut)
        self.bed.dpctl("store", "set", job, go, "now", check=0)
        # Ranks that see the key continue, and wait for the third rank in vain.
        self.bed.follow_until_each(job, "going", 2, WITHIN_S)
        self.hosts.plug(cut)
        self.assertEqual(self.bed.wait(job, WITHIN_S), 0, self.bed.dpctl("logs", job).stdout)
        told = [text for _, text in lines_of(self.bed.dpctl("logs", job).stdout) if "sum" in text]
        self.assertEqual(told, 3 * ["sum 3 done 3"])
        after = self.bed.describe(job)
        self.assertEqual(after["generation"], 1)
        self.assertEqual([rank["pid"] for rank in after["ranks"]],
                         [rank["pid"] for rank in before["ranks"]])


if __name__ == "__main__":
    unittest.main()
