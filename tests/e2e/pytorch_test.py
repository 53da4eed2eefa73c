"""Unmodified PyTorch programs, written for torchrun, as command jobs on two worker daemons."""

import json
import pathlib
import subprocess
import unittest

from cluster import Cluster, alive
from command_test import lines_of

# The interpreter of the distribution's python3-torch.
PYTHON = "/usr/bin/python3"
PROGRAMS = pathlib.Path(__file__).parent / "programs"
TOP = pathlib.Path(__file__).parent.parent.parent
# Importing torch alone takes seconds on a busy machine.
WITHIN_S = 240


def why_not():
    done = subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"needs python3-torch: {done.stderr.strip()[-80:]}"


@unittest.skipIf(why_not(), why_not())
class PytorchTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        for name in ("worker-a", "worker-b"):
            self.cluster.worker(slots=2, name=name)

    def run_program(self, name, *arguments, nproc=1, check=0):
        return self.cluster.dpctl("run", "--nnodes", 2, "--nproc-per-node", nproc, "--", PYTHON,
                                  PROGRAMS / name, *arguments, check=check, timeout_s=WITHIN_S)

    def train(self, nproc):
        output = self.run_program("ddp.py", self.cluster.dir, nproc=nproc).stdout
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

    def test_two_ranks_on_two_workers_train(self):
        self.check_trained(self.train(nproc=1), 2)

    def test_four_ranks_on_two_workers_train(self):
        self.check_trained(self.train(nproc=2), 4)

    def test_a_rank_that_raises_is_named_with_its_traceback(self):
        done = self.run_program("crash.py", check=1)
        self.assertIn("rank 1 on worker-b", done.stderr)
        self.assertIn("exit code 1", done.stderr)
        failure = self.cluster.describe("crash")["failure"]
        self.assertEqual(failure["rank"], 1)
        self.assertTrue(any("crash.py" in line for line in failure["lastLines"]), failure)
        self.assertIn("ValueError: no such layer: conv7", failure["lastLines"])

    def test_a_program_that_hangs_is_cancelled_with_all_its_descendants(self):
        path = self.cluster.dir / "hang.json"
        path.write_text(json.dumps({
            "apiVersion": "dp/v1", "kind": "Job", "name": "hang", "grace": "1s",
            "command": {"argv": [PYTHON, str(PROGRAMS / "hang.py")], "nodes": "2"}}))
        job = self.cluster.dpctl("submit", "-o", "name", path, check=0).stdout.strip()
        children = self.cluster.follow_until_each(job, "child ", ranks=2, timeout_s=WITHIN_S)
        pids = [int(line.split()[-1]) for line in children]
        pids += [rank["pid"] for rank in self.cluster.describe(job)["ranks"]]
        self.assertTrue(all(alive(pid) for pid in pids))
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertFalse(any(alive(pid) for pid in pids))

    def test_ddp_averages_the_gradients_of_the_worked_example(self):
        output = self.run_program("worked_ddp.py").stdout
        for rank in (0, 1):
            self.assertEqual(
                [text for who, text in lines_of(output) if who == rank],
                ["weight [0.26045, 0.16305, -0.0934, -0.53085, 0.0, 0.0]", "bias [0.5, 0.5, 0.0]"])

    def test_data_parallel_sums_the_gradients_of_the_worked_example(self):
        output = self.cluster.dpctl("run", "--", PYTHON, PROGRAMS / "worked_dp.py", check=0,
                                    timeout_s=WITHIN_S).stdout
        self.assertEqual(
            [text for _, text in lines_of(output)],
            ["weight [0.4362, 0.4574, 0.2052, 0.2362, 0.0, 0.0]", "bias [1.0, 1.0, 0.0]"])

    def test_the_example_runs_as_it_stands(self):
        done = self.cluster.dpctl("run", "examples/pytorch_ddp.yaml", check=0, cwd=TOP,
                                  timeout_s=WITHIN_S)
        last = lines_of(done.stdout)[-1][1]
        self.assertTrue(last.startswith("epoch 20/20  accuracy "), last)
        self.assertGreater(float(last.split()[-1]), 0.8)


if __name__ == "__main__":
    unittest.main()
