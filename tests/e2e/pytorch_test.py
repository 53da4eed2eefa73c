"""Unmodified PyTorch programs, written for torchrun, as command jobs on two worker daemons."""

import concurrent.futures
import json
import pathlib
import subprocess
import unittest

from kit import pytorch
from kit.cluster import Cluster, alive, eventually, free_ports
from kit.hosts import take_own_loopback
from kit.pytorch import PYTHON, WITHIN_S
from kit.rank_lines import lines_of
from kit.terminal import Terminal

PROGRAMS = pathlib.Path(__file__).parent / "programs"
# For PYTHONPATH: makes an interpreter abort at shutdown. Programs with DistributedDataParallel must
# exit before.
ABORTS_AT_EXIT = PROGRAMS / "abort_at_exit"
TOP = pathlib.Path(__file__).parent.parent.parent


def training():
    """The training program; run by end_at_once.py if this PyTorch may abort it at its end."""
    return [PROGRAMS / name for name in ("end_at_once.py", "ddp.py")[int(pytorch.version().startswith("1.")):]]


def setUpModule():
    # A client of another test whose coordinator has left may call a port that is torch's now, and
    # torch's RPC aborts on bytes of TLS.
    take_own_loopback()


@unittest.skipIf(pytorch.why_not(), pytorch.why_not())
class PytorchTest(unittest.TestCase):
    def setUp(self):
        self.rendezvous = f"127.0.0.1:{free_ports(1).split('-')[0]}"  # for torchrun's agents
        self.cluster = self.enterContext(Cluster(store_ports=free_ports(20), tcpstore_listen=self.rendezvous))
        for name in ("worker-a", "worker-b"):
            self.cluster.worker(slots=2, name=name)

    def run_program(self, name, *arguments, nproc=1, store="relay", check=0):
        return self.cluster.dpctl("run", "--nnodes", 2, "--nproc-per-node", nproc, "--store", store, "--",
                                  PYTHON, PROGRAMS / name, *arguments, check=check, timeout_s=WITHIN_S)

    def train(self, nproc, store="relay"):
        output = self.run_program(*training(), self.cluster.dir, nproc=nproc, store=store).stdout
        by_rank = {}
        for rank, text in lines_of(output):
            by_rank.setdefault(rank, []).append(text)
        return [by_rank[rank] for rank in sorted(by_rank)]

    def check_trained(self, ranks, size):
        self.assertEqual(len(ranks), size)
        for rank, lines in enumerate(ranks):
            expected = [f"sum {size * (size + 1) // 2}"]
            if rank % 2 == 0:
                expected.append(f"even {size // 2}")
            expected += [f"samples 32 of 32, {32 // size} here", "loss fell", "weights equal"]
            self.assertEqual(lines, expected)

    def test_four_ranks_on_two_workers_train(self):
        self.check_trained(self.train(nproc=2), 4)

    def test_the_store_may_be_served_by_rank_0s_daemon_or_by_the_coordinator(self):
        self.check_trained(self.train(nproc=1, store="rank0"), 2)
        self.check_trained(self.train(nproc=1, store="direct"), 2)

    def test_a_rendezvous_goes_on_through_coordinators_that_are_killed(self):
        job = self.cluster.dpctl("submit", "-o", "name", "--nnodes", 2, "--nproc-per-node", 2, "--",
                                 PYTHON, PROGRAMS / "rendezvous.py", check=0).stdout.strip()
        self.cluster.follow_until(job, "begin", timeout_s=WITHIN_S)
        kills = 0
        while not self.over(job):
            before = self.keys(job)
            self.cluster.restart_coordinator()
            kills += 1
            self.assertTrue(eventually(lambda: self.over(job) or self.keys(job) != before))
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("logs", job).stdout)
        self.assertGreater(kills, 2)
        made = [text for _, text in lines_of(self.cluster.dpctl("logs", job).stdout) if "made" in text]
        self.assertEqual(made, 4 * ["made 20 groups of 4"])

    def over(self, job):
        return self.cluster.describe(job)["state"] in ("SUCCEEDED", "FAILED")

    def keys(self, job):
        """The number of keys in the job's store; None when the job is over."""
        done = self.cluster.dpctl("store", "ls", job)
        return len(done.stdout.splitlines()) if done.returncode == 0 else None

    def test_torchruns_own_agents_meet_at_the_coordinator(self):
        # With Python 3.11, PyTorch 1.13 accepts only 1 and 2 for --redirects and --tee.
        agents = [subprocess.Popen(
            [PYTHON, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1", "--rdzv_backend", "c10d",
             "--rdzv_endpoint", self.rendezvous, "--rdzv_conf", "is_host=false", "--rdzv_id", "one",
             "--redirects", "1", "--tee", "1", "--log_dir", self.cluster.dir / f"agent-{number}",
             *training(), self.cluster.dir],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for number in range(2)]
        for agent in agents:
            self.addCleanup(agent.kill)
        with concurrent.futures.ThreadPoolExecutor() as waiting:
            outputs = list(waiting.map(lambda agent: self.output_of(agent, agents), agents))
        everything = "\n-- the other agent\n".join(outputs)
        self.assertEqual([agent.returncode for agent in agents], [0, 0], everything)
        self.assertEqual(everything.count("weights equal"), 2, everything)

    def output_of(self, agent, agents):
        """All output of the agent. If it fails, kills the others, which would wait for it for
        minutes."""
        try:
            output, _ = agent.communicate(timeout=WITHIN_S)
        except subprocess.TimeoutExpired:
            agent.kill()
            output = f"ended after {WITHIN_S} s: {agent.communicate()[0]}"
        if agent.returncode != 0:
            for other in agents:
                other.kill()
        return output

    def test_a_rank_that_raises_is_named_with_its_traceback(self):
        for store in ("relay", "direct"):
            with self.subTest(store=store):
                self.check_crash(store)

    def check_crash(self, store):
        done = self.run_program("crash.py", store=store, check=1)
        self.assertIn("rank 1 on worker worker-b", done.stderr)
        self.assertIn("exit code 1", done.stderr)
        failure = self.cluster.describe("crash")["failure"]
        self.assertEqual(failure["rank"], 1)
        self.assertTrue(any("crash.py" in line for line in failure["lastLines"]), failure)
        # Current PyTorch prefixes each line with the rank.
        self.assertTrue(any(line.endswith("ValueError: no such layer: conv7")
                            for line in failure["lastLines"]), failure)

    def test_a_program_that_hangs_is_cancelled_with_all_its_descendants(self):
        for store in ("relay", "direct"):
            with self.subTest(store=store):
                self.check_hang(store)

    def check_hang(self, store):
        path = self.cluster.dir / "hang.json"
        path.write_text(json.dumps({
            "apiVersion": "dp/v1", "kind": "Job", "name": "hang", "grace": "1s",
            "command": {"argv": [PYTHON, str(PROGRAMS / "hang.py")], "nodes": "2", "store": store}}))
        job = self.cluster.dpctl("submit", "-o", "name", path, check=0).stdout.strip()
        children = self.cluster.follow_until_each(job, "child ", ranks=2, timeout_s=WITHIN_S)
        pids = [int(line.split()[-1]) for line in children]
        pids += [rank["pid"] for rank in self.cluster.describe(job)["ranks"]]
        self.assertTrue(all(alive(pid) for pid in pids))
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertFalse(any(alive(pid) for pid in pids))

    def test_a_group_and_rpc_meet_at_one_store(self):
        texts = [text for _, text in lines_of(self.run_program("rpc.py").stdout)]
        self.assertEqual([text for text in texts if text.startswith("total")], ["total 3", "total 3"])

    def test_ddp_averages_the_gradients_of_the_worked_example(self):
        output = self.cluster.dpctl("run", "--nnodes", 2, "--env", f"PYTHONPATH={ABORTS_AT_EXIT}", "--", PYTHON,
                                    PROGRAMS / "worked_ddp.py", check=0, timeout_s=WITHIN_S).stdout
        for rank in (0, 1):
            self.assertEqual(
                [text for who, text in lines_of(output) if who == rank],
                ["weight [0.26045, 0.16305, -0.0934, -0.53085, 0.0, 0.0]", "bias [0.5, 0.5, 0.0]"])

    def port(self):
        return free_ports(1).split("-")[0]

    def test_a_program_that_spawns_its_replicas_runs_as_it_is(self):
        for words in (["run", "--", PYTHON, PROGRAMS / "spawned_ddp.py", self.port()],
                      ["torchrun", PROGRAMS / "spawned_ddp.py", self.port()]):
            done = self.cluster.dpctl(*words, check=0, timeout_s=WITHIN_S, env={"PYTHON_EXEC": PYTHON})
            self.assertEqual(sorted(text for _, text in lines_of(done.stdout)),
                             [f"replica {rank} weight [0.26045, 0.16305, -0.0934, -0.53085, 0.0, 0.0]"
                              for rank in (0, 1)])

    def test_a_program_that_waits_for_its_own_store_gets_the_remedy_after_a_silence(self):
        command = [*self.cluster.dpctl_command(), "run", "--store", "relay", "--", PYTHON,
                   PROGRAMS / "spawned_ddp.py", self.port()]
        with Terminal(command) as terminal:
            terminal.until("leave out --store, or give --store program")
        self.cluster.dpctl("cancel", "spawned-ddp", check=0)

    def test_data_parallel_sums_the_gradients_of_the_worked_example(self):
        output = self.cluster.dpctl("run", "--", PYTHON, PROGRAMS / "worked_dp.py", check=0,
                                    timeout_s=WITHIN_S).stdout
        self.assertEqual(
            [text for _, text in lines_of(output)],
            ["weight [0.4362, 0.4574, 0.2052, 0.2362, 0.0, 0.0]", "bias [1.0, 1.0, 0.0]"])

    def test_the_example_runs_as_it_stands(self):
        done = self.cluster.dpctl("run", "examples/pytorch_ddp.yaml", "--set", f"command.argv[0]={PYTHON}", "--set",
                                  f"env.PYTHONPATH={ABORTS_AT_EXIT}", check=0, cwd=TOP, timeout_s=WITHIN_S)
        last = lines_of(done.stdout)[-1][1]
        self.assertTrue(last.startswith("epoch 20/20  accuracy "), last)
        self.assertGreater(float(last.split()[-1]), 0.8)


if __name__ == "__main__":
    unittest.main()
