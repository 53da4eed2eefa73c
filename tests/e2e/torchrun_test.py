"""Command lines of torchrun and torch.distributed.launch users, without PyTorch."""

import sys
import unittest

from kit.cluster import Cluster
from kit.rank_lines import lines_of
from kit.wire_client import WIRE_CLIENT

# Prints its rank, its arguments and the interpreter's flags.
PLACE = """import os, sys
print(os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["TORCHELASTIC_RUN_ID"], sys.argv[1:], "-u" in sys.orig_argv)
"""
# The error of an interpreter without PyTorch.
LACKS_TORCH = """raise ModuleNotFoundError("No module named 'torch'")
"""
LAUNCHED = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.add_argument("--lr")
print(parser.parse_args())
"""


class TorchrunTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())

    def script(self, text, name="place.py"):
        path = self.cluster.dir / name
        path.write_text(text)
        return path

    def lines(self, *words):
        done = self.cluster.dpctl(*words, check=0, cwd=self.cluster.dir, env={"PYTHON_EXEC": sys.executable})
        return [text for _, text in sorted(lines_of(done.stdout))]

    def test_torchruns_command_line_runs_on_the_cluster(self):
        self.cluster.worker(slots=2)
        self.script(PLACE)
        for verb in ("torchrun", "run"):
            lines = self.lines(verb, "--nnodes=1", "--nproc_per_node=2", "--rdzv_id", "mine", "--rdzv_backend", "c10d",
                               "--rdzv_endpoint", "localhost:0", "place.py", "--nnodes", "3", "--", "x")
            self.assertEqual(lines, ["0 0 mine ['--nnodes', '3', '--', 'x'] True", "1 1 mine ['--nnodes', '3', '--', 'x'] True"])

    def test_standalone_needs_no_cluster_and_names_each_run(self):
        self.script(PLACE)
        runs = [self.lines("torchrun", "--standalone", "-m", "place")[0].split()[2] for _ in range(2)]
        self.assertRegex(runs[0], "^dp-local-[0-9a-f]{16}$")
        self.assertNotEqual(runs[0], runs[1])

    def test_launch_gives_each_rank_its_local_rank_as_an_argument(self):
        self.cluster.worker(slots=2)
        self.script(LAUNCHED, "launched.py")
        self.assertEqual(self.lines("launch", "--nproc_per_node", 2, "launched.py", "--lr", "1"),
                         ["Namespace(local_rank=0, lr='1')", "Namespace(local_rank=1, lr='1')"])

    def test_lines_that_are_redirected_are_in_files(self):
        self.script(PLACE)
        self.assertEqual(self.lines("torchrun", "--standalone", "--nproc-per-node", 2, "-r", "0:3", "--log-dir", "logs",
                                    "place.py")[0].split()[:2], ["1", "1"])
        logs = list((self.cluster.dir / "logs").glob("dp-logs-*/attempt_0/0/stdout.log"))
        self.assertEqual(len(logs), 1)
        self.assertTrue(logs[0].read_text().startswith("0 0 dp-local-"))

    def test_a_python_without_torch_is_named(self):
        self.cluster.worker()
        done = self.cluster.dpctl("run", self.script(LACKS_TORCH, "lacks.py"), check=1, env={"PYTHON_EXEC": sys.executable})
        self.assertIn(f"dp: {sys.executable} has no module torch; name one that has it", done.stderr)

    def test_a_local_coordinator_serves_direct_stores(self):
        done = self.cluster.dpctl("run", "--local", "--store", "direct", "--nproc-per-node", 2, "--", sys.executable,
                                  WIRE_CLIENT, "place", check=0)
        places = {text for _, text in lines_of(done.stdout)}
        self.assertEqual(len(places), 1, places)
        self.assertRegex(places.pop(), r"^at 127\.0\.0\.1:\d+ as client$")


if __name__ == "__main__":
    unittest.main()
