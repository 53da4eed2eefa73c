"""The guide's firewall rules, loaded on a test host and tried from two others."""

import pathlib
import shutil
import subprocess
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

from kit import hosts as test_hosts  # noqa: E402
from kit.cluster import BIN, TIMEOUT_S, Cluster  # noqa: E402

RULES = TOP / "deploy" / "systemd" / "dp.nft"
REASON = test_hosts.why_not() or ("" if shutil.which("nft") else "needs nft, of the package nftables")
COORDINATOR, INSIDE, OUTSIDE = range(3)
UNREACHABLE = 104  # a dpctl exit code
TORCHRUN, STORE, RANK = 29400, 29500, 41234  # --tcpstore-listen, one of --store-ports, one of the kernel's
ELSEWHERE = 8080
SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
while True:
    server.accept()
"""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))"


@unittest.skipIf(REASON, REASON)
class FirewallTest(unittest.TestCase):
    def test_only_the_hosts_that_are_listed_reach_the_coordinator(self):
        with test_hosts.Hosts(3) as hosts, FirewalledCluster(hosts) as cluster:
            self.assertEqual(cluster.dpctl_from(INSIDE), 0)
            self.assertEqual(cluster.dpctl_from(OUTSIDE), 0)
            cluster.load_rules(allowed=hosts.address(OUTSIDE))
            cluster.load_rules(allowed=hosts.address(INSIDE))  # replaces what was loaded before
            self.assertEqual(cluster.dpctl_from(INSIDE), 0)
            self.assertEqual(cluster.dpctl_from(OUTSIDE, within="1s"), UNREACHABLE)
            self.assertEqual(cluster.dpctl_from(COORDINATOR), 0)

    def test_nor_do_others_reach_stores_or_ranks(self):
        with test_hosts.Hosts(3) as hosts, FirewalledCluster(hosts) as cluster:
            for port in (STORE, RANK):
                cluster.serve(COORDINATOR, port)
            cluster.serve(OUTSIDE, ELSEWHERE)
            for port in (TORCHRUN, STORE, RANK):
                self.assertTrue(cluster.reaches(OUTSIDE, COORDINATOR, port))
            cluster.load_rules(allowed=hosts.address(INSIDE))
            for port in (TORCHRUN, STORE, RANK):
                self.assertTrue(cluster.reaches(INSIDE, COORDINATOR, port))
                self.assertFalse(cluster.reaches(OUTSIDE, COORDINATOR, port, within_s=1))
            self.assertTrue(cluster.reaches(COORDINATOR, OUTSIDE, ELSEWHERE))


class FirewalledCluster(Cluster):
    """A coordinator on a host of its own, at the port that the rules name."""

    def __init__(self, hosts):
        self.hosts = hosts
        super().__init__()

    def start_coordinator(self, _):
        return self.program(BIN / "dp-coordinator", "--listen",
                            f"{self.hosts.address(COORDINATOR)}:7070", "--data-dir",
                            self.dir / "coordinator", "--tcpstore-listen",
                            f"{self.hosts.address(COORDINATOR)}:{TORCHRUN}", "--tcpstore-insecure",
                            prefix=self.hosts.prefix(COORDINATOR))

    def serve(self, host, port):
        """Starts a process that listens there."""
        self.program(sys.executable, "-c", SERVE, self.hosts.address(host), port,
                     prefix=self.hosts.prefix(host))

    def reaches(self, host, server, port, within_s=TIMEOUT_S):
        connect = [sys.executable, "-c", CONNECT, self.hosts.address(server), str(port), str(within_s)]
        return subprocess.run([*self.hosts.prefix(host), *connect], capture_output=True).returncode == 0

    def load_rules(self, allowed):
        rules = self.dir / "dp.nft"
        text = RULES.read_text()
        assert "10.0.0.0/24" in text
        rules.write_text(text.replace("10.0.0.0/24", allowed))
        subprocess.run([*self.hosts.prefix(COORDINATOR), "nft", "-f", rules], check=True)

    def dpctl_from(self, host, within=f"{TIMEOUT_S}s"):
        """Runs `dpctl workers` on this host and returns its exit code."""
        return subprocess.run([*self.hosts.prefix(host), *self.dpctl_command(), "--timeout", within,
                               "workers"], capture_output=True).returncode


if __name__ == "__main__":
    unittest.main()
