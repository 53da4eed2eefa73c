"""Tests tests/gpu/bench, small and on CPUs, with a peer that stands in for PyTorch.

    bench_test.py BUILD_DIR
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import jobs  # noqa: E402
from kit.idx_data import write_idx  # noqa: E402

BUILD = sys.argv.pop(1)
BENCH = pathlib.Path(__file__).with_name("bench")
# The output of the peers' scripts, by command line.
PEER = """#!/bin/sh
case "$*" in
  *"import torch"*) echo "a warning" >&2; echo 1.2.3 ;;
  *torch.distributed.run*) echo "first step" ;;
  *gpt2.py*) echo '{"tokens_per_second": 100}' ;;
  *"--batch 640"*) exit 3 ;;
  *--ddp*) echo '{"images_per_second": 90, "step_ms": 11}' ;;
  *cnn.py*) echo '{"images_per_second": 100, "step_ms": 10}' ;;
esac
"""
NO_PEER = "#!/bin/sh\necho 'No module named torch'; exit 1\n"


def variants(*groups):
    return [f"{group}_{variant}" for group in groups for variant in ("eager", "compile")]


GPT = [*variants("gpt2_124m"), "gpt2_124m_best"]
CNN = variants("cnn_128_float32", "cnn_128_tf32", "cnn_128_bf16")
LARGE_CNN = variants("cnn_1024_float32", "cnn_1024_tf32", "cnn_1024_bf16")
OVERHEADS = ["ddp_overhead_1_rank", "ddp_overhead_1_rank_nccl"]
COSTS = [*OVERHEADS, "first_step_cold", "first_step_warm"]
# The row of NCCL takes them where there is no GPU.
FAKES = pathlib.Path(BUILD) / "tests/fake_cuda/libnccl.so.2"


class RehearsalTest(unittest.TestCase):
    def rows(self, peer, *names):
        """Runs bench with this peer; returns its rows by name, in their order."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        python = pathlib.Path(folder) / "python"
        python.write_text(peer)
        python.chmod(0o755)
        done = subprocess.run([BENCH, "--build", BUILD, "--rehearse", "--rounds", "1", "--python", python, *names],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.told = done.stderr
        return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}

    def test_every_row_comes_with_both_figures_and_what_they_were_measured_with(self):
        rows = self.rows(PEER)
        self.assertEqual(list(rows), [*GPT, *CNN, *LARGE_CNN, *COSTS])
        for name, row in rows.items():
            if name == "ddp_overhead_1_rank_nccl" and not FAKES.exists():
                self.assertIn("is not in", row["ours_why"])
                continue
            self.assertIsNotNone(row["ours"], row)
            self.assertNotIn("ours_why", row)
            if name in LARGE_CNN:
                self.assertEqual((row["peer"], row["ratio"]), (None, None))
                self.assertIn("640 does not fit", row["peer_why"])
                continue
            self.assertIsNotNone(row["peer"], row)
            self.assertEqual(row["peer_torch"], "1.2.3")
            if name not in OVERHEADS:  # a cost within the noise has no ratio
                self.assertGreater(row["ratio"], 0)
        self.assertEqual((rows["gpt2_124m_best"]["ours_batch"], rows["gpt2_124m_best"]["peer_batch"]), (4, 4))
        self.assertEqual([rows[f"cnn_128_{each}_eager"]["peer_precision"] for each in ("float32", "tf32", "bf16")],
                         ["float32", "tf32", "bf16"])
        overhead = rows["ddp_overhead_1_rank"]
        self.assertGreater(overhead["ours_step_ms"], 0)
        self.assertIn("two jobs", overhead["ours_steps_are"])
        if FAKES.exists():
            self.assertEqual(rows["ddp_overhead_1_rank_nccl"]["ours_device"], "a fake")

    def test_without_pytorch_ours_is_measured_alone_and_the_row_says_why(self):
        rows = self.rows(NO_PEER, "gpt2", "first_step_warm")
        self.assertEqual(list(rows), [*GPT, "first_step_warm"])
        for row in rows.values():
            self.assertGreater(row["ours"], 0)
            self.assertEqual((row["peer"], row["ratio"]), (None, None))
            self.assertIn("No module named torch", row["peer_why"])

    def test_an_interpreter_that_does_not_start_is_a_reason_and_no_end(self):
        row = self.rows("no interpreter", "first_step_warm")["first_step_warm"]
        self.assertGreater(row["ours"], 0)
        self.assertIn("cannot be asked for PyTorch", row["peer_why"])


    def test_what_no_time_is_left_for_has_no_figure_and_says_so(self):
        row = self.rows(PEER, "--minutes", "0", "first_step_warm")["first_step_warm"]
        self.assertEqual((row["ours"], row["peer"], row["ratio"]), (None, None, None))
        for who in ("ours_why", "peer_why"):
            self.assertIn("not done within 0 s", row[who])


OVERHEAD = pathlib.Path(BUILD) / "tests/ddp_overhead_on_host"


@unittest.skipUnless(OVERHEAD.exists(), "ddp_overhead_on_host has not been built: no CUDA headers")
class OverheadTest(unittest.TestCase):
    def test_the_group_of_nccl_needs_nccl_and_the_local_one_does_not(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "libnccl.so.2").write_text("no library")
        ends = {}
        for group in ("nccl", "local"):
            command = [OVERHEAD, "--group", group, "--preset", "mlp", "--batch", "2", "--steps", "2", "--rounds", "1"]
            ends[group] = subprocess.run(command, capture_output=True, text=True, timeout=300,
                                         env={**os.environ, "LD_LIBRARY_PATH": str(folder)})
        self.assertEqual((ends["local"].returncode, ends["nccl"].returncode), (0, 1))
        self.assertGreater(json.loads(ends["local"].stdout)["with_ddp_ms"], 0)
        self.assertIn("libnccl.so.2", ends["nccl"].stderr)


class JobsForGpusTest(unittest.TestCase):
    """No rehearsal submits the jobs for GPUs; this checks that dpctl at least accepts them."""

    def expect_taken(self, job):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "job.json"
        path.write_text(json.dumps(job))
        done = subprocess.run([f"{BUILD}/bin/dpctl", "submit", "--dry-run", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_precision_is_one_of_a_job(self):
        for precision in ("float32", "tf32", "bf16"):
            self.expect_taken(jobs.gpt("gpt", "/tokens.bin", jobs.GPU, 64, epochs=4, precision=precision))

    def test_a_trace_and_a_number_of_steps_are_taken(self):
        images = write_idx(self.enterContext(tempfile.TemporaryDirectory()), train=200, test=20)
        for train in ({"precision": "bf16"}, {"trace": "/trace.jsonl"}, {"maxSteps": 1, "epochs": 1}):
            self.expect_taken(jobs.cnn("cnn", images, jobs.GPU, **train))


if __name__ == "__main__":
    unittest.main()
