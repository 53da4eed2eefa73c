"""A coordinator on a small disk: it rejects writes before the disk is full, and starts on a full
disk."""

import unittest

from kit import small_disk
from kit.cluster import Cluster, eventually

MIB = 1 << 20
# A disk of 100 MiB holds this many specs of 900 KiB, each in the journal and in its snapshot.
JOBS_THAT_FILL = 58
# --job-specs-bytes-max, an eighth of that disk, has room for 14 specs; other records may use some
# of it.
JOBS_MIN = 8
# --disk-reserve of either disk: below it every job is rejected.
DISK_RESERVE = 12 * MIB
# --log-disk-reserve of a disk of 64 MiB, and the room above it. The logs of six jobs take 36 MiB.
LOG_DISK_RESERVE = 24 * MIB
ROOM_FOR_LOGS = 12 * MIB


class OnSmallDisk(Cluster):
    """A coordinator whose data directory is a disk of that size."""

    def __init__(self, size, **options):
        self.disk = None
        self._size = size
        super().__init__(**options)

    def start_coordinator(self, listen, **how):
        if self.disk is None:
            self.disk = self.enter_context(small_disk.SmallDisk(self.dir / "coordinator", self._size))
        return super().start_coordinator(listen, prefix=self.disk.prefix, **how)

    # The administrator's credential is on the small disk, too.
    def worker(self, **how):
        return super().worker(prefix=self.disk.prefix, **how)

    def dpctl_command(self):
        return [*self.disk.prefix, *super().dpctl_command()]

    def job(self, name, kib=1, **fields):
        """A job whose spec has about `kib` KiB."""
        argv = ["true", *("x" * 1000 for _ in range(kib))]
        return {"apiVersion": "dp/v1", "kind": "Job", "name": name, "command": {"argv": argv}, **fields}

    def try_submit(self, name, **how):
        """Returns None, or why the job was rejected."""
        try:
            self.submit(self.job(name, **how))
        except AssertionError as refused:
            return str(refused)
        return None

    def states(self):
        return [line.split()[0] for line in self.dpctl("ps", "-a", "-o", "name", check=0).stdout.splitlines()]


@unittest.skipIf(small_disk.why_not(), small_disk.why_not())
class DiskTest(unittest.TestCase):
    def test_held_jobs_are_refused_before_they_fill_the_disk(self):
        with OnSmallDisk("100m") as cluster:
            refused = None
            jobs = 0
            while refused is None and jobs < JOBS_THAT_FILL:
                refused = cluster.try_submit(f"held-{jobs}", kib=900, hold=True)
                jobs += refused is None
            self.assertIn("--job-specs-bytes-max", refused or "all were taken")
            self.assertGreaterEqual(jobs, JOBS_MIN)
            cluster.restart_coordinator()
            self.assertEqual(len(cluster.states()), jobs)
            for number in range(1, jobs + 1):
                cluster.dpctl("cancel", number, check=0)
            # Jobs that have ended make room.
            self.assertIsNone(cluster.try_submit("next", kib=900, hold=True))
            self.assertGreater(cluster.disk.available(), DISK_RESERVE + 4 * MIB)  # the next jobs fit too

    def test_it_starts_on_a_full_disk_and_its_jobs_can_be_read_and_removed(self):
        with OnSmallDisk("100m") as cluster:
            job = cluster.submit(cluster.job("held", kib=900, hold=True))
            self.assertTrue(eventually(lambda: (cluster.disk.path / "ballast").exists()))
            cluster.disk.fill()
            cluster.restart_coordinator()
            self.assertIn("event=ballast_released", cluster.coordinator.log())
            self.assertEqual(cluster.describe(job)["name"], "held")
            self.assertIn("the file system of --data-dir has", cluster.try_submit("late"))
            cluster.dpctl("cancel", job, check=0)
            cluster.restart_coordinator()
            self.assertEqual(cluster.describe(job)["state"], "CANCELLED")
            cluster.disk.clear()
            self.assertIsNone(cluster.try_submit("again"))
            self.assertTrue(eventually(lambda: (cluster.disk.path / "ballast").exists()))

    def test_logs_of_jobs_that_have_ended_make_room_at_the_reserve_of_the_disk(self):
        # Logs of all jobs may take 32 MiB; the disk has less room above the reserve.
        with OnSmallDisk("64m", lease="2s") as cluster:
            self.assertTrue(eventually(lambda: (cluster.disk.path / "ballast").exists()))
            cluster.disk.fill(leave=LOG_DISK_RESERVE + ROOM_FOR_LOGS)
            cluster.worker(slots=1, name="worker-a")
            writes = ["python3", "-c", "for i in range(60_000): print('x' * 99)"]
            jobs = []
            for number in range(6):
                job = cluster.job(f"writes-{number}")
                job["command"]["argv"] = writes
                jobs.append(cluster.submit(job))
                self.assertEqual(cluster.wait(jobs[-1]), 0)
            spool = cluster.dir / "state-worker-a" / "spool"
            self.assertTrue(eventually(lambda: not list(spool.glob("*/*/*.out"))))
            self.assertEqual(cluster.dpctl("logs", jobs[-1], check=0).stdout.count("x" * 99), 60_000)
            self.assertIn("event=logs_removed job=1 reason=disk_reserve", cluster.coordinator.log())
            self.assertGreater(cluster.disk.available(), DISK_RESERVE)


if __name__ == "__main__":
    unittest.main()
