"""The main job across two hosts with addresses and names of their own."""

import unittest

import hosts as test_hosts
from cluster import BIN, Cluster
from idx_data import train_job, write_idx

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


class OnHosts(Cluster):
    """A cluster whose coordinator runs on host 0; dpctl runs there too."""

    def __init__(self, hosts):
        self.hosts = hosts
        super().__init__()

    def start_coordinator(self, listen):
        address = f"{self.hosts.address(0)}:{listen.split(':')[-1]}"
        return self.program(BIN / "dp-coordinator", "--insecure", "--listen", address,
                            "--data-dir", self.dir / "coordinator",
                            prefix=self.hosts.prefix(0))

    def dpctl_command(self):
        return [*self.hosts.prefix(0), *super().dpctl_command()]


if __name__ == "__main__":
    unittest.main()
