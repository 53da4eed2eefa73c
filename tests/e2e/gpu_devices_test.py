"""DataParallel of the installed library on the GPUs of one process, over a fake of CUDA's runtime; NCCL is not there."""

import pathlib
import shutil
import unittest

from kit import package
from kit.cluster import BIN

PROGRAM = pathlib.Path(__file__).parent / "programs/gpu_devices.cc"
FAKES = BIN.parent / "tests/fake_cuda"
INVALID, UNSUPPORTED = range(2)  # dp::ErrorKind


def why_not():
    if not list(FAKES.glob("libcudart.so.*")):
        return "dp_fake_cudart has not been built: no headers of CUDA or NCCL"
    return ""


@unittest.skipIf(why_not(), why_not())
class GpuDevicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package.installed_program(cls, PROGRAM)
        package.fake_kernels(cls, FAKES / "device_math.so")
        cls.runtime = cls.dir / "runtime"
        cls.runtime.mkdir()
        for library in FAKES.glob("libcudart.so.*"):
            shutil.copy(library, cls.runtime)

    def said(self, *devices, env=None):
        """The exit code and the lines of the program."""
        done = package.run(self.program, *devices,
                           env={"LD_LIBRARY_PATH": str(self.runtime), "FAKE_CUDA_DEVICES": "3", **(env or {})})
        return done.returncode, done.stdout.splitlines()

    def test_gpus_share_a_batch_and_add_their_gradients(self):
        if not self.has_kernels:
            self.skipTest("built without the CUDA toolkit")
        self.assertEqual(self.said("cuda:1", "cuda:0"),
                         (0, ["device cuda:1", "device cuda:0", "output cuda:1 2 4 6", "gradient 14"]))

    def test_a_model_on_a_gpu_runs_on_all_by_default(self):
        if not self.has_kernels:
            self.skipTest("built without the CUDA toolkit")
        self.assertEqual(self.said(), (0, ["device cuda:0", "device cuda:1", "device cuda:2", "output cuda:0 2 4 6",
                                           "gradient 14"]))

    def test_one_gpu_needs_no_kernels(self):
        hidden = self.kernels.with_name("hidden")
        self.kernels.rename(hidden)
        self.addCleanup(hidden.rename, self.kernels)
        self.assertEqual(self.said("cuda:0"), (0, ["device cuda:0", "output cuda:0 2 4 6", "gradient 14"]))
        code, lines = self.said("cuda:0", "cuda:1")
        self.assertEqual((code, len(lines)), (1, 1), lines)
        self.assertRegex(lines[0], f"^{UNSUPPORTED} DataParallel: arithmetic on a GPU's memory needs the library's kernels, ")

    def test_gpus_that_are_not_there_are_named(self):
        self.assertEqual(self.said("cuda:3"), (1, [
            f"{INVALID} zeros: device 'cuda:3' does not exist: this process sees 3 GPUs, from cuda:0 on; nvidia-smi and "
            "CUDA_VISIBLE_DEVICES list them"]))
        code, lines = self.said("cuda:0", env={"FAKE_CUDA_DEVICES": "0"})
        self.assertEqual(code, 1)
        self.assertRegex(lines[0], fr"^{UNSUPPORTED} zeros: device 'cuda:0': this process sees no GPU \(CUDA: .*\); nvidia-smi")

    def test_a_missing_runtime_is_named(self):
        broken = self.dir / "broken"
        broken.mkdir()
        for library in self.runtime.iterdir():
            (broken / library.name).touch()  # the loader looks nowhere else then
        code, lines = self.said("cuda:0", env={"LD_LIBRARY_PATH": str(broken)})
        self.assertEqual(code, 1)
        self.assertRegex(lines[0], fr"^{UNSUPPORTED} zeros: device 'cuda:0': GPUs cannot be used: cannot load libcudart\.so\.\d+: "
                                   ".*; CPU devices need no library$")


if __name__ == "__main__":
    unittest.main()
