#!/usr/bin/env python3
"""Programs of current PyTorch, JAX and TensorFlow on dp, written as their documentation shows.

    frameworks_test.py SERVER       with DP_BIN, DP_TORCH and DP_FRAMEWORKS set, as by tests/interop/run

SERVER is the TCPStore server, which prints its port and exits when its standard input ends.
DP_TORCH is a python3 with PyTorch, DP_FRAMEWORKS one with JAX and TensorFlow.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "bench")]

from kit.cluster import Cluster, free_ports  # noqa: E402
from kit.rank_lines import lines_of  # noqa: E402
from local_names import local_names  # noqa: E402

SERVER = sys.argv.pop(1)
TORCH = pathlib.Path(os.environ["DP_TORCH"])
FRAMEWORKS = os.environ["DP_FRAMEWORKS"]
PROGRAMS = HERE / "programs"
# TensorFlow alone takes many seconds to import.
WITHIN_S = 240


class CommandJobsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(store_ports=free_ports(20), tcpstore_listen="127.0.0.1:0"))
        for name in ("worker-a", "worker-b"):
            self.cluster.worker(slots=1, name=name)

    def run_program(self, contract, name):
        """The last line that each of two ranks prints."""
        done = self.cluster.dpctl("run", "--nnodes", 2, "--contract", contract, "--", FRAMEWORKS,
                                  PROGRAMS / name, check=0, timeout_s=WITHIN_S)
        return [text for _, text in sorted(lines_of(done.stdout)) if text.startswith("rank ")]

    def test_two_jax_processes_find_each_other_and_sum(self):
        self.assertEqual(self.run_program("jax", "jax_sum.py"),
                         ["rank 0 of 2: 2 devices, sum 3", "rank 1 of 2: 2 devices, sum 3"])

    def test_multi_worker_mirrored_strategy_sums_the_gradients_of_two_workers(self):
        self.assertEqual(self.run_program("tensorflow", "tensorflow_mirrored.py"),
                         ["rank 0 of 2: weight [-1.0, -1.0]", "rank 1 of 2: weight [-1.0, -1.0]"])

    def test_a_program_for_tpus_takes_the_default_strategy_without_one(self):
        self.assertEqual(self.run_program("tensorflow", "tensorflow_tpu.py"),
                         ["rank 0: 1 replica, weight 0.5", "rank 1: 1 replica, weight 0.5"])

    def test_every_verb_of_pytorchs_store_through_a_daemon_and_of_the_coordinator_itself(self):
        for store in ("relay", "rank0", "direct"):
            with self.subTest(store=store):
                self.cluster.dpctl("run", "--store", store, "--", TORCH, HERE / "tcpstore_verbs.py", "MASTER",
                                   check=0, timeout_s=WITHIN_S)


class TorchrunTest(unittest.TestCase):
    """torchrun's own agents, with our server in place of their rendezvous host."""

    def setUp(self):
        self.port = self.serve()
        self.prefix = self.enterContext(local_names())

    def serve(self):
        self.server = subprocess.Popen([SERVER, "127.0.0.1"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        return int(self.server.stdout.readline())

    def stop(self):
        self.server.stdin.close()
        self.assertEqual(self.server.wait(), 0)
        self.server.stdout.close()

    def agent(self, log, crashed):
        # The agents share a store with their ranks, which keeps the keys of the previous attempt.
        # Gloo then reads old addresses of its peers. Our server is the store in which the agents
        # meet.
        environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        agent = subprocess.Popen(
            [*self.prefix, TORCH.parent / "torchrun", "--nnodes", "2", "--nproc-per-node", "1",
             "--max-restarts", "1", "--rdzv-backend", "c10d", "--rdzv-id", "interop",
             "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-conf", "is_host=false",
             "--local-addr", "127.0.0.1", PROGRAMS / "restart.py", crashed],
            env=environment, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.terminate)  # it ends its rank too
        return agent

    def ended(self, agent):
        try:
            return agent.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            return "still running"

    def test_two_agents_meet_at_our_store_and_meet_again_after_a_crash(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        logs = [self.enterContext(open(directory / f"agent-{number}", "w+")) for number in (0, 1)]
        agents = [self.agent(log, directory / "crashed") for log in logs]
        ends = [self.ended(agent) for agent in agents]
        output = "".join(log.seek(0) or log.read() for log in logs)
        self.assertEqual(ends, [0, 0], output)
        self.assertTrue((directory / "crashed").exists(), output)
        self.assertEqual(sorted(re.findall(r"rank \d of .*", output)),
                         ["rank 0 of 2: sum 3", "rank 1 of 2: sum 3"])


class CoordinatorTorchrunTest(TorchrunTest):
    """The same with the store that the coordinator serves."""

    def serve(self):
        cluster = self.enterContext(Cluster(tcpstore_listen="127.0.0.1:0"))
        return int(re.search(r"event=tcpstore_listening address=\S+:(\d+)", cluster.coordinator.log())[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
