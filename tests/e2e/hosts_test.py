"""The main job across two hosts with their own addresses and names."""

import json
import subprocess
import sys
import unittest

from kit import hosts as test_hosts
from kit.cluster import TIMEOUT_S, Cluster, alive, eventually
from kit.idx_data import train_job, write_idx
from kit.wire_client import WIRE_CLIENT, wire_job

REASON = test_hosts.why_not()


@unittest.skipIf(REASON, REASON)
class HostsTest(unittest.TestCase):
    def test_ranks_on_two_hosts_train_as_one(self):
        with test_hosts.Hosts(2) as hosts, OnHosts(hosts) as cluster:
            for number in range(2):
                cluster.worker(slots=1, prefix=hosts.prefix(number))
            job = cluster.submit(train_job(write_idx(cluster.dir / "data"), ranks=2))
            self.assertEqual(cluster.wait(job), 0)
            ranks = cluster.describe(job)["ranks"]
            self.assertEqual(sorted(rank["host"] for rank in ranks), ["host-0", "host-1"])

    def three_workers(self, hosts, cluster):
        """One worker each on hosts 1, 2 and 3; the coordinator is on host 0."""
        for number in (1, 2, 3):
            cluster.worker(slots=1, name=f"worker-{number}", prefix=hosts.prefix(number))

    def generation(self, cluster, job, number):
        """The job, once its ranks of that generation run."""
        def there():
            described = cluster.describe(job)
            at_work = described["state"] == "RUNNING" and described["generation"] == number
            return described if at_work else None
        described = eventually(there)
        self.assertTrue(described, cluster.dpctl("describe", job).stdout)
        return described

    def test_a_command_is_over_before_its_place_is_given_away_and_a_healed_worker_comes_back(self):
        with test_hosts.Hosts(4) as hosts, OnHosts(hosts) as cluster:
            self.three_workers(hosts, cluster)
            job = cluster.submit({"apiVersion": "dp/v1", "kind": "Job", "name": "long", "ranks": 2,
                                  "command": {"argv": ["sleep", "1000"]}})
            before = self.generation(cluster, job, 1)["ranks"]
            self.assertEqual([rank["host"] for rank in before], ["host-1", "host-2"])
            hosts.cut(2)
            after = self.generation(cluster, job, 2)
            self.assertFalse(alive(before[1]["pid"]))
            self.assertEqual([rank["host"] for rank in after["ranks"]], ["host-1", "host-3"])
            self.assertEqual(after["pastFailures"][0]["failureClass"], "infra")
            hosts.heal(2)
            self.assertTrue(eventually(lambda: "worker-2" in ready_workers(cluster)))
            self.assertEqual(cluster.describe(job)["generation"], 2)
            cluster.dpctl("cancel", job, check=0)
            self.assertEqual(cluster.wait(job), 103)

    def test_a_training_goes_on_without_a_host_that_is_cut_off(self):
        with test_hosts.Hosts(4) as hosts, OnHosts(hosts) as cluster:
            self.three_workers(hosts, cluster)
            data = write_idx(cluster.dir / "data")
            job = cluster.submit(train_job(data, epochs=35, evaluateEvery=0))
            self.generation(cluster, job, 1)
            hosts.cut(1)
            after = self.generation(cluster, job, 2)
            self.assertEqual([rank["host"] for rank in after["ranks"]], ["host-3", "host-2"])
            hosts.heal(1)
            self.assertTrue(eventually(lambda: "worker-1" in ready_workers(cluster)))
            self.assertEqual(cluster.wait(job), 0, cluster.dpctl("describe", job).stdout)
            self.assertEqual(cluster.describe(job)["generation"], 2)


PORT = 29500  # nobody else is on the hosts
# Sets a key of the store at argv[1], port argv[2].
SET_KEY = """
import sys
sys.path.insert(0, sys.argv[3])
from wire_client import WireClient
try:
    client = WireClient(sys.argv[1], sys.argv[2])
except ConnectionError:  # closed or reset, by timing
    sys.exit("refused")
client.set("go", "now")
client.get("go")
"""


@unittest.skipIf(REASON, REASON)
class StoresTest(unittest.TestCase):
    """A job with ranks on hosts 1 and 2. The coordinator is on host 0, and a stranger on host 3."""

    def serve(self, store, server, **options):
        self.hosts = self.enterContext(test_hosts.Hosts(4))
        cluster = self.enterContext(OnHosts(self.hosts, store_ports=f"{PORT}-{PORT}", **options))
        workers = [cluster.worker(slots=1, name=f"worker-{number}", prefix=self.hosts.prefix(number))
                   for number in (1, 2)]
        job = cluster.submit(wire_job("hold", ranks=2, store=store))
        cluster.follow_until_each(job, "holding", ranks=2)
        self.at = (self.hosts.address(server), PORT)
        self.assertEqual(self.set_key(3).stderr, "refused\n")
        served = self.set_key(2)
        self.assertEqual(served.returncode, 0, served.stderr)
        self.assertEqual(cluster.wait(job), 0)
        return "".join(program.log() for program in [cluster.coordinator, *workers])

    def set_key(self, host):
        return subprocess.run([*self.hosts.prefix(host), sys.executable, "-c", SET_KEY, *map(str, self.at),
                               WIRE_CLIENT.parent], capture_output=True, text=True, timeout=TIMEOUT_S)

    def assert_names_the_stranger(self, log):
        told = [line for line in log.splitlines() if "event=tcpstore_client_refused" in line]
        self.assertEqual(len(told), 1, log)
        self.assertIn(f"a process at {self.hosts.address(3)} has connected, which is no host of the job", told[0])

    def test_rank_0s_host_serves_only_hosts_of_the_job(self):
        self.assert_names_the_stranger(self.serve("rank0", server=1))

    def test_the_coordinator_serves_only_hosts_of_the_job(self):
        log = self.serve("direct", server=0, tcpstore_listen="10.77.0.1:0", tcpstore_insecure="true")
        self.assert_names_the_stranger(log)


def ready_workers(cluster):
    listed = json.loads(cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
    return [worker["name"] for worker in listed if worker["state"] == "READY"]


class OnHosts(Cluster):
    """A cluster whose coordinator runs on host 0; dpctl runs there too."""

    def __init__(self, hosts, **options):
        self.hosts = hosts
        super().__init__(**options)

    def start_coordinator(self, listen):
        address = f"{self.hosts.address(0)}:{listen.split(':')[-1]}"
        return super().start_coordinator(address, prefix=self.hosts.prefix(0))

    def dpctl_command(self):
        return [*self.hosts.prefix(0), *super().dpctl_command()]


if __name__ == "__main__":
    unittest.main()
