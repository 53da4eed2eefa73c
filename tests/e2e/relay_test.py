"""The TCPStore of command jobs, tested by a wire-protocol client: each way to serve it, and
killed coordinators."""

import os
import re
import resource
import socket
import subprocess
import sys
import unittest

from kit.cluster import TIMEOUT_S, Cluster, eventually, free_ports
from kit.rank_lines import lines_of
from kit.wire_client import WIRE_CLIENT, wire_job

NOBODY = 65534
# Says whether the store at port argv[1] serves this process, as user argv[2]. Such a user may be
# unable to read Python's modules.
CONNECT = f"""
import encodings.idna, os, sys
sys.path.insert(0, {str(WIRE_CLIENT.parent)!r})
from wire_client import WireClient
if len(sys.argv) > 2:
    os.setuid(int(sys.argv[2]))
try:
    WireClient("127.0.0.1", sys.argv[1]).check("a key that nobody has set")
    print("served")
except ConnectionError:  # closed or reset, by timing
    print("refused")
"""


def run_python(program, *arguments):
    """Returns its output."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)
    return done.stdout + done.stderr


class StoreTest(unittest.TestCase):
    """Two workers, and a range of ports that no other test has: rank0 and direct share one
    address."""

    def setUp(self):
        self.cluster = self.enterContext(Cluster(store_ports=free_ports(20), tcpstore_listen="127.0.0.1:0"))
        self.workers = [self.cluster.worker(slots=4, name=f"worker-{i}") for i in range(2)]

    def texts(self, job):
        return [text for _, text in lines_of(self.cluster.dpctl("logs", job).stdout)]

    def assert_succeeds(self, job):
        code = self.cluster.wait(job)
        self.assertEqual(code, 0, self.cluster.dpctl("describe", job).stdout + "\n".join(self.texts(job)))

    def assert_counted(self, job, ranks, times):
        self.assert_succeeds(job)
        total = ranks * times
        counts = [text for text in self.texts(job) if text.startswith("sum")]
        self.assertEqual(counts, ranks * [f"sum {total} text {total} swapped {total} queued 0"])

    def sum(self, job):
        done = self.cluster.dpctl("store", "get", job, "sum")
        return int(done.stdout.strip() or 0) if done.returncode == 0 else 0

    def count_through_kills(self, store):
        """8 clients change shared keys. The coordinator is killed each time they have made
        progress."""
        job = self.cluster.submit(wire_job("count", 150, ranks=8, store=store))
        self.cluster.follow_until(job, "counting")
        for _ in range(6):
            before = self.sum(job)
            self.cluster.restart_coordinator()
            self.assertTrue(eventually(lambda: self.sum(job) > before))
        self.assertEqual(self.cluster.describe(job)["state"], "RUNNING")
        self.assert_counted(job, ranks=8, times=150)

    def waiters(self, job):
        """The awaited keys, one for each named rank."""
        named = r"(?m)^(?:key|queue|barrier) +(\S+)(?: and \d+ more)? +rank \d+ on worker-\d "
        return re.findall(named, self.cluster.dpctl("store", "waiters", job).stdout)

    def named_at_the_barrier(self, job):
        """(rank, worker) of the seven ranks that wait for rank 1 at the barrier."""
        named = r"(?m)^barrier +meet +rank (\d) on (worker-\d) +\S+ +7 of 8 +1$"
        found = re.findall(named, self.cluster.dpctl("store", "waiters", job).stdout)
        return sorted((int(rank), worker) for rank, worker in found)

    def name_who_waits(self, store, restarts=0):
        """Waiting ranks are named with their workers, whoever serves the store. The missing rank
        is named too."""
        job = self.cluster.submit(wire_job("late", ranks=8, store=store))
        self.cluster.follow_until(job, "holding")
        ranks = [(rank["rank"], rank["worker"]) for rank in self.cluster.describe(job)["ranks"]]
        self.assertEqual({worker for _, worker in ranks}, {"worker-0", "worker-1"})
        expected = sorted(rank for rank in ranks if rank[0] != 1)
        for _ in range(restarts + 1):
            self.assertTrue(eventually(lambda: self.named_at_the_barrier(job) == expected),
                            self.cluster.dpctl("store", "waiters", job).stdout)
            if restarts:
                self.cluster.restart_coordinator()
        self.let_go(job, "go", *7 * ["meet"])

    def let_go(self, job, *keys):
        """Waits until ranks wait for exactly these keys, then lets the job go and succeed."""
        self.assertTrue(eventually(lambda: sorted(self.waiters(job)) == sorted(keys)), self.waiters(job))
        self.cluster.dpctl("store", "set", job, "go", "now", check=0)
        self.assert_succeeds(job)

    def share_elements(self, store):
        """A pushed element wakes one waiting rank, so each rank gets an element of its own."""
        job = self.cluster.submit(wire_job("share", ranks=8, store=store))
        self.let_go(job, "go", *7 * ["jobs"])
        self.assertEqual(sorted(self.texts(job)), [f"popped {str(n).encode()}" for n in range(1, 8)])

    def glimpse_keys(self, store):
        """A key that was set counts for a wait, even if it is deleted before the other keys are
        set."""
        job = self.cluster.submit(wire_job("glimpse", ranks=2, store=store))
        self.let_go(job, "go", "first")
        self.assertEqual(self.texts(job), ["saw both"])


    def name_who_has_not_come(self, store):
        """Ranks without a connection to the store are named, for example ranks late for their
        rendezvous."""
        late = wire_job("hold", ranks=6, store=store)
        argv = late["command"]["argv"]
        late["command"]["argv"] = ["sh", "-c", 'test "$RANK" = 1 -o "$RANK" = 4 && exec sleep 600; exec "$0" "$@"',
                                   *argv]
        job = self.cluster.submit(late)
        lacking = r"(?m)^key +go +rank [0235] on worker-\d +\S+ +- +1,4$"
        shown = lambda: self.cluster.dpctl("store", "waiters", job).stdout
        self.assertTrue(eventually(lambda: len(re.findall(lacking, shown())) == 4), shown())
        self.cluster.dpctl("cancel", job, check=0)


class RelayTest(StoreTest):
    def test_ranks_that_have_not_come_to_the_store_are_named(self):
        self.name_who_has_not_come("relay")

    def test_every_operation_takes_effect_once_through_coordinators_that_are_killed(self):
        self.count_through_kills("relay")

    def test_a_parked_wait_outlives_coordinators(self):
        job = self.cluster.submit(wire_job("hold", ranks=2))
        self.cluster.follow_until_each(job, "holding", ranks=2)
        for _ in range(3):
            self.cluster.restart_coordinator()
            self.assertTrue(eventually(lambda: self.waiters(job).count("go") == 2))
        self.cluster.dpctl("store", "set", job, "go", "now", check=0)
        self.assert_succeeds(job)
        self.assertEqual(self.texts(job).count("got now"), 2)

    def test_who_waits_is_named_and_so_are_the_ranks_that_a_barrier_lacks(self):
        self.name_who_waits("relay")

    def test_each_element_of_a_queue_is_for_one_of_those_who_wait(self):
        self.share_elements("relay")

    def test_a_key_that_was_there_counts_for_a_wait_for_several(self):
        self.glimpse_keys("relay")

    def test_each_daemon_serves_its_ranks_on_loopback_and_closes_with_them(self):
        job = self.cluster.submit(wire_job("place", ranks=8))
        self.assert_succeeds(job)
        addresses = {text for text in self.texts(job)}
        self.assertEqual(len(addresses), 2, addresses)  # both daemons are on this host
        for text in addresses:
            self.assertRegex(text, r"^at 127\.0\.0\.\d+:\d+ as client$")
        for worker in self.workers:
            self.assertTrue(eventually(lambda: "event=store_closed" in worker.log()))

    def test_the_ranks_of_a_job_that_is_cancelled_are_stopped_by_their_daemon_not_by_their_store(self):
        job = self.cluster.submit(wire_job("hold", ranks=2))
        self.cluster.follow_until_each(job, "holding", ranks=2)
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertEqual(self.texts(job), 2 * ["holding"])

    def port_held(self):
        """The relay's port of a new job whose rank waits."""
        job = self.cluster.submit(wire_job("hold", ranks=1))
        self.addCleanup(self.cluster.dpctl, "cancel", job)
        self.cluster.follow_until(job, "holding")
        (port,) = re.findall(r"event=store_served .*:(\d+)", self.logs_of_workers())
        return port

    def logs_of_workers(self):
        return "".join(worker.log() for worker in self.workers)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to act as another user")
    def test_a_process_of_another_user_is_not_served(self):
        self.assertEqual(run_python(CONNECT, self.port_held(), str(NOBODY)), "refused\n")
        self.assertIn(f"a process of user {NOBODY} has connected", self.logs_of_workers())

    def test_a_process_that_no_rank_has_started_is_not_served(self):
        self.assertEqual(run_python(CONNECT, self.port_held()), "refused\n")
        self.assertIn("that no rank of job 1 has started", self.logs_of_workers())

    def test_a_rank_of_another_job_is_not_served(self):
        other = self.cluster.submit({"apiVersion": "dp/v1", "kind": "Job", "name": "other", "ranks": 1,
                                     "command": {"argv": [sys.executable, "-c", CONNECT, self.port_held()]}})
        self.assertEqual(self.cluster.wait(other), 0)
        self.assertEqual(self.texts(other), ["refused"])

    def test_a_process_that_a_rank_has_started_is_served(self):
        argv = ["sh", "-c", f'setsid -w {sys.executable} -c "$0" $MASTER_PORT', CONNECT]
        job = self.cluster.submit({"apiVersion": "dp/v1", "kind": "Job", "name": "nested", "ranks": 1,
                                   "command": {"argv": argv, "store": "relay"}})
        self.assertEqual(self.cluster.wait(job), 0)
        self.assertEqual(self.texts(job), ["served"])

    def test_a_job_finds_nothing_of_the_one_before(self):
        for _ in range(2):
            self.assert_counted(self.cluster.submit(wire_job("count", 1, ranks=2)), ranks=2, times=1)


class CrowdTest(unittest.TestCase):
    def test_a_daemon_holds_ten_thousand_connections_and_its_rank_may_open_more_than_1024_files(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < 10_100:
            self.skipTest(f"a process may open {hard} files only")
        cluster = self.enterContext(Cluster())
        cluster.worker(slots=1, prefix=["prlimit", "--nofile=1024:"])
        job = cluster.submit(wire_job("crowd", 10_000, ranks=1))
        cluster.wait(job)
        texts = [text for _, text in lines_of(cluster.dpctl("logs", job).stdout)]
        self.assertEqual(texts, [f"may have {min(hard, 65536)} of {hard}", "counted 3 over 10000"])


class Rank0Test(StoreTest):
    def test_ranks_that_have_not_come_to_the_store_are_named(self):
        self.name_who_has_not_come("rank0")

    def test_the_daemon_of_rank_0_serves_all(self):
        self.count_through_kills("rank0")

    def test_who_waits_is_named_on_every_host_also_by_a_coordinator_that_was_restarted(self):
        self.name_who_waits("rank0", restarts=1)

    def test_it_does_so_until_the_job_is_over_on_every_host(self):
        job = self.cluster.submit(wire_job("outlive", ranks=8, store="rank0"))
        self.cluster.follow_until_each(job, "holding", ranks=4)
        self.assertTrue(eventually(lambda: self.exited(job) == 4))
        self.cluster.dpctl("store", "set", job, "go", "now", check=0)
        self.assert_succeeds(job)
        self.assertTrue(eventually(lambda: "event=store_closed" in self.workers[0].log()))

    def exited(self, job):
        return sum(rank["state"] == "RELEASED" for rank in self.cluster.describe(job)["ranks"])


class DirectTest(StoreTest):
    def test_waits_are_answered_as_with_a_relay(self):
        self.share_elements("direct")
        self.glimpse_keys("direct")

    def test_who_waits_is_named_on_every_host(self):
        self.name_who_waits("direct")

    def test_the_coordinator_serves_all(self):
        job = self.cluster.submit(wire_job("count", 50, ranks=8, store="direct"))
        self.assert_counted(job, ranks=8, times=50)
        self.assertTrue(eventually(lambda: "event=store_closed" in self.cluster.coordinator.log()))

    def test_it_does_not_survive_the_coordinators_restart_and_dpctl_says_so(self):
        done = self.cluster.dpctl("submit", "-o", "name", "--nnodes", 2, "--store", "direct", "--",
                                  sys.executable, WIRE_CLIENT, "hold", check=0)
        self.assertIn("does not survive its restart", done.stderr)
        job = done.stdout.strip()
        self.cluster.follow_until_each(job, "holding", ranks=2)
        self.cluster.restart_coordinator()
        self.assertEqual(self.cluster.wait(job), 1)
        self.assertIn("the store has closed the connection", "\n".join(self.texts(job)))

    def test_a_port_that_another_program_has_taken_keeps_its_job_waiting_and_says_so(self):
        port = int(free_ports(1).split("-")[0])
        cluster = self.enterContext(Cluster(store_ports=f"{port}-{port}", tcpstore_listen="127.0.0.1:0"))
        cluster.worker(slots=1)
        with socket.create_server(("127.0.0.1", port)):
            job = cluster.submit(wire_job("count", 1, ranks=1, store="direct"))
            self.assertTrue(eventually(lambda: cluster.describe(job)["pendingReasons"]))
            reason = " ".join(cluster.describe(job)["pendingReasons"])
            self.assertIn(f"{port} to {port}", reason)
            self.assertIn("taken by another program", reason)
            self.assertIn("--store-ports", reason)
        self.assertEqual(cluster.wait(job), 0)

    def test_a_coordinator_that_serves_none_refuses_it(self):
        other = self.enterContext(Cluster())
        done = other.dpctl("submit", "--store", "direct", "--", "true", check=2)
        self.assertIn("start it with --tcpstore-listen", done.stderr)


if __name__ == "__main__":
    unittest.main()
