"""Backend nccl of the library, over fakes of CUDA's runtime and of NCCL whose GPUs are the host's memory."""

import contextlib
import os
import pathlib
import subprocess
import unittest

from kit import package
from kit.cluster import BIN
from kit.waiting import TIMEOUT_S

PROGRAM = pathlib.Path(__file__).parent / "programs/nccl_ranks.cc"
LIBRARIES = BIN.parent / "tests/fake_cuda"
INVALID, UNSUPPORTED, WRONG_STATE, TIMEOUT, PEER_GONE, MISMATCH = range(6)  # dp::ErrorKind
TWO_GPUS = {"LD_LIBRARY_PATH": str(LIBRARIES), "FAKE_CUDA_DEVICES": "2", "NCCL_RAS_ENABLE": "0"}


def why_not():
    if not (LIBRARIES / "libnccl.so.2").exists():
        return "dp_fake_nccl has not been built: no headers of CUDA or NCCL"
    return ""


@unittest.skipIf(why_not(), why_not())
class NcclLibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package.installed_program(cls, PROGRAM)
        package.fake_kernels(cls, LIBRARIES / "device_math.so")

    def ranks(self, verb, devices=(), env=None):
        """Runs two ranks, each with its device, else with that of LOCAL_RANK; returns their exit codes and lines."""
        method = f"file://{self.dir}/{self.id()}"
        with contextlib.ExitStack() as stack:
            ranks = [stack.enter_context(subprocess.Popen(
                [self.program, method, "2", str(rank), verb, *(str(device) for device in devices[rank:rank + 1])],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={**os.environ, **TWO_GPUS, "LOCAL_RANK": str(rank), **(env or {})})) for rank in range(2)]
            said = [rank.communicate(timeout=TIMEOUT_S)[0].splitlines() for rank in ranks]
            return [(rank.returncode, lines) for rank, lines in zip(ranks, said)]

    def test_every_verb_takes_gpu_memory(self):
        common = ["nccl", "all_reduce 1.5 3"]
        self.assertEqual(self.ranks("verbs"), [
            (0, [*common, "reduce 1 3", "all_gather 1 2", "reduce_scatter 2", "gather 2 4", "scatter 2",
                 "all_to_all 1 2", "messages 2 20", "host 3", "new_group 6"]),
            (0, [*common, "reduce 2 3", "all_gather 1 2", "reduce_scatter 4", "gather 1 2", "scatter 4",
                 "all_to_all 10 20", "messages 1 10", "host 3", "new_group 6"])])

    def test_replicas_train_on_gpus(self):
        if not self.has_kernels:
            self.skipTest("built without the CUDA toolkit")
        common = ["values 0 7", "mean 1.5 1.5", "norm 2.1213", "clipped 0.7071", "bfloat16 1.5 1.5"]
        self.assertEqual(self.ranks("replicas"), [(0, [*common, "normalized -1"]), (0, [*common, "normalized 1"])])

    def test_replicas_without_the_kernels_say_what_is_missing(self):
        hidden = self.kernels.with_name("hidden")
        self.kernels.rename(hidden)
        self.addCleanup(hidden.rename, self.kernels)
        for code, lines in self.ranks("replicas"):
            self.assertEqual((code, lines[:2]), (1, ["values 0 7", "mean 1.5 1.5"]), lines)
            self.assertRegex(lines[2], f"^{UNSUPPORTED} group 'default', rank .: arithmetic on a GPU's memory needs the "
                                       "library's kernels, ")

    def test_a_device_that_is_given_chooses_nccl(self):
        # A new group inherits it: by LOCAL_RANK the ranks would share a GPU.
        for code, lines in self.ranks("verbs", devices=(1, 0), env={"LOCAL_RANK": "0"}):
            self.assertEqual((code, lines[0], lines[-1]), (0, "nccl", "new_group 6"), lines)

    def test_calls_that_nccl_cannot_serve_name_the_remedy(self):
        messages = ["send to rank 1, tag 0", "recv from rank 0, tag 0"]
        for rank, (said, message) in enumerate(zip(self.ranks("rejects"), messages)):
            prefix = f"group 'default', rank {rank}: "
            self.assertEqual(said, (0, [
                f"{INVALID} {prefix}reduce of the host's memory over backend nccl; copy it to the GPU, or make a group of "
                "backend gloo by new_group",
                f"{INVALID} {prefix}send of the host's memory over backend nccl; copy it to the GPU, or make a group of "
                "backend gloo by new_group",
                f"{MISMATCH} {prefix}{message}: rank 0 sends 2 float32, rank 1 expects 1 float32; call the same operation "
                "with the same arguments on every rank"]))

    def test_ranks_that_share_a_gpu_are_named_on_both(self):
        for rank, said in enumerate(self.ranks("verbs", devices=(1, 1))):
            self.assertEqual(said, (1, [
                f"{WRONG_STATE} group 'default', rank {rank}: ranks 0, 1 share the GPU :1 of one host (device 1 of rank 0, "
                "device 1 of rank 1); give each rank a GPU of its own"]))

    def test_a_device_that_the_process_does_not_see_is_named(self):
        for code, lines in self.ranks("verbs", env={"LOCAL_RANK": "2"}):
            self.assertEqual(code, 1)
            self.assertRegex(lines[0], f"^{INVALID} device 2: CUDA: cudaSetDevice .*; give option device or LOCAL_RANK")

    LATE = f"{TIMEOUT} group 'default', rank 0: all_reduce 2: rank 1 did not arrive within 2s; "

    def test_a_wait_leaves_the_error_of_an_operation_to_the_next_call(self):
        (code, lines), _ = self.ranks("late")
        self.assertEqual((code, len(lines), lines[0]), (1, 2, "went on"), lines)
        self.assertTrue(lines[1].startswith(self.LATE), lines)

    def test_a_blocking_wait_has_the_error_itself(self):
        (code, lines), _ = self.ranks("late", env={"NCCL_BLOCKING_WAIT": "1"})
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertTrue(lines[0].startswith(self.LATE), lines)

    def test_blocking_wait_and_async_error_handling_exclude_each_other(self):
        for said in self.ranks("verbs", env={"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}):
            self.assertEqual(said, (1, [
                f"{INVALID} TORCH_NCCL_BLOCKING_WAIT and TORCH_NCCL_ASYNC_ERROR_HANDLING are both on, and "
                "exclude each other; unset TORCH_NCCL_ASYNC_ERROR_HANDLING, or set it to 0"]))

    def test_a_rank_that_dies_is_named_by_the_one_that_awaits_its_message(self):
        (code, lines), _ = self.ranks("lost")
        self.assertEqual((code, lines), (1, [
            f"{PEER_GONE} group 'default', rank 0: recv from rank 1, tag 0: rank 1 went away; the output of that rank "
            "says why it ended"]))

    def test_a_missing_library_is_named(self):
        broken = self.dir / "broken"
        broken.mkdir()
        (broken / "libnccl.so.2").touch()  # the loader looks nowhere else then
        for code, lines in self.ranks("verbs", env={"LD_LIBRARY_PATH": str(broken)}):
            self.assertEqual(code, 1)
            self.assertRegex(lines[0], f"^{UNSUPPORTED} backend nccl cannot be used: cannot load libnccl.so.2: .*; "
                                       "install it or set LD_LIBRARY_PATH; backends auto, shm and gloo need no GPU$")


if __name__ == "__main__":
    unittest.main()
