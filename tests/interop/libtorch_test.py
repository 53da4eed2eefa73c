"""dp::torch with the official wheel's LibTorch: python3 libtorch_test.py BUILD_DIR, by an interpreter that has torch.

Installs dp's library, builds the programs of libtorch/ against it and the wheel, and compares with PyTorch.
"""

import array
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.utils

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples/library/libtorch"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
STEPS = 10
TIMEOUT_S = 600
# With one thread a rank, sums within an operation have one order.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def run(*command, env=None):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class LibtorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="dp-libtorch-")))
        cls.root = cls.dir / "root"
        run("cmake", "--install", BUILD, "--prefix", cls.root, "--component", "library", "--strip")
        cls.programs = cls.built(HERE / "libtorch", "programs")

    @classmethod
    def built(cls, source, name):
        run("cmake", "-S", source, "-B", cls.dir / name, "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={cls.root};{torch.utils.cmake_prefix_path}")
        run("cmake", "--build", cls.dir / name, "-j2")
        return cls.dir / name

    def two_ranks(self, *command, env=None):
        """By torchrun, which also starts programs that are not Python's."""
        return run(pathlib.Path(sys.executable).parent / "torchrun", "--standalone", "--nproc-per-node", 2, "--no-python",
                   *command, env={**ONE_THREAD, **(env or {})})

    def trained(self, model):
        ours, theirs = (self.dir / f"{model}.{side}" for side in ("dp", "pytorch"))
        said = self.two_ranks(self.programs / "train", model, STEPS, ours)
        self.two_ranks(sys.executable, HERE / "libtorch/train.py", model, STEPS, theirs)
        weights = [array.array("f", path.read_bytes()) for path in (ours, theirs)]
        return *weights, json.loads(said.splitlines()[-1])["libraries"]

    def test_weights_after_ten_steps_are_those_of_pytorchs_ddp(self):
        for model in ("mlp", "cnn"):
            with self.subTest(model):
                ours, theirs, _ = self.trained(model)
                self.assertEqual(len(ours), len(theirs))
                self.assertLess(max(abs(a - b) for a, b in zip(ours, theirs)), 1e-6)

    def test_a_process_has_one_gloo_one_protobuf_and_one_openmp(self):
        # The wheel's libtorch_cpu has a Gloo and a Protocol Buffers inside.
        _, _, libraries = self.trained("cnn")
        self.assertEqual(len(libraries), 1, libraries)
        self.assertIn("omp", pathlib.Path(libraries[0]).name)

    def test_the_wrapper(self):
        log = self.dir / "bindings"
        run(self.programs / "libtorch_test", env={**ONE_THREAD, "LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(log)})
        bindings = [line for path in self.dir.glob("bindings.*") for line in path.read_text().splitlines()]
        of_gloo = [line for line in bindings if re.search(r"binding file \S*(dp_distributed_gloo|libgloo)\S* .*gloo", line)]
        self.assertNotEqual(of_gloo, [])
        self.assertEqual([line for line in of_gloo if "libtorch_cpu" in line], [])

    def test_the_example_trains_and_its_weights_load(self):
        program = self.built(EXAMPLE, "example") / "libtorch_train"
        weights = self.dir / "weights.pt"
        said = self.two_ranks(program, weights)
        right = sorted(re.findall(r"rank (\d) of 2: ([\d.]+)% of the points are right", said))
        self.assertEqual([rank for rank, _ in right], ["0", "1"], said)
        self.assertGreater(min(float(percent) for _, percent in right), 90)
        loaded = torch.jit.load(weights)
        self.assertEqual(sorted(name for name, _ in loaded.named_parameters()),
                         ["hidden.bias", "hidden.weight", "norm.bias", "norm.weight", "output.bias", "output.weight"])


if __name__ == "__main__":
    unittest.main()
