"""Tests which CUDA toolkit `make dist CUDA=...` takes, with folders that only look like toolkits."""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]


def scripts_dist():
    loader = importlib.machinery.SourceFileLoader("dist", str(TOP / "scripts/dist"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dist", loader))
    loader.exec_module(module)
    return module


class ToolkitTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.env = {name: value for name, value in os.environ.items() if name not in ("CUDA_HOME", "CUDA_PATH")}

    def toolkit(self, name, version, without=()):
        """A folder with the files by which a toolkit is known."""
        folder = self.dir / name
        files = {"bin/nvcc": "#!/bin/sh\n", "lib64/libcublasLt.so": "",
                 "include/cuda_runtime_api.h": f"#define CUDART_VERSION  {version}\n"}
        for path, text in files.items():
            if path not in without:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text)
                (folder / path).chmod(0o755)
        return folder

    def ask(self, *arguments, **env):
        return subprocess.run([TOP / "scripts/cuda-toolkit", "--in", self.dir, *arguments], capture_output=True, text=True,
                              env={**self.env, **env})

    def expect_chosen(self, wanted, folder, **env):
        done = self.ask(wanted, **env)
        self.assertEqual((done.stdout, done.stderr, done.returncode), (f"{folder}\n", "", 0))

    def expect_refused(self, wanted, *words):
        done = self.ask(wanted)
        self.assertEqual((done.stdout, done.returncode), ("", 1))
        for word in words:
            self.assertIn(word, done.stderr)

    def test_the_newest_of_the_version_is_taken(self):
        for name, version in (("cuda-13.0", 13000), ("cuda-12.0", 12000)):
            self.toolkit(name, version)
        older, newer = self.toolkit("cuda-12.4", 12040), self.toolkit("cuda-12.10", 12100)
        self.expect_chosen("12", newer)
        self.expect_chosen("12.4", older)

    def test_a_toolkit_may_lie_anywhere(self):
        self.toolkit("cuda-13.0", 13000)
        elsewhere = self.toolkit("opt/toolkit", 12090)
        self.expect_chosen(str(elsewhere), elsewhere)
        self.expect_chosen("12", elsewhere, CUDA_HOME=str(elsewhere))

    def test_a_version_that_is_not_there_is_refused_with_what_is_there_and_a_remedy(self):
        self.toolkit("cuda-13.0", 13000)
        self.expect_refused("12", "no CUDA 12 toolkit", "cuda-13.0 is 13.0", "cuda-toolkit-12-9", "make dist CUDA=FOLDER")
        self.expect_refused("12.4", "cuda-toolkit-12-4,")
        self.expect_refused("14", "cuda-toolkit-14-*,")

    def test_a_toolkit_without_a_compiler_or_a_library_is_no_toolkit(self):
        for part in ("bin/nvcc", "lib64/libcublasLt.so"):
            folder = self.toolkit(part.replace("/", "-"), 12090, without=(part,))
            self.expect_refused(str(folder), f"has no {part}", "name a toolkit's folder")
        self.toolkit("cuda-12.9", 12090, without=("bin/nvcc",))
        self.expect_refused("12", "cuda-12.9 lacks bin/nvcc")

    def build(self, toolkit):
        """A build folder of the preset dist, without programs."""
        (self.dir / "CMakeCache.txt").write_text(
            f"DP_STATIC:BOOL=ON\nCUDAToolkit_NVCC_EXECUTABLE:FILEPATH={toolkit / 'bin/nvcc'}\n")
        return self.dir

    def test_the_tarball_is_named_after_the_toolkit(self):
        (self.dir / "bin").mkdir()
        (self.dir / "bin/dp-trainer-cuda").touch()
        for version, name in ((12090, "-cuda12"), (13000, "-cuda13")):
            self.assertEqual(scripts_dist().cuda_of(self.build(self.toolkit(f"toolkit{name}", version))), name)

    def test_a_build_without_the_gpu_trainer_gives_no_tarball_for_cuda(self):
        build, out = self.build(self.toolkit("cuda-12.9", 12090)), self.dir / "out"
        done = subprocess.run([TOP / "scripts/dist", "--name-cuda", build, out], capture_output=True, text=True)
        self.assertEqual((done.returncode, out.exists()), (1, False))
        self.assertIn(f"no dp-trainer-cuda in {build}: install cuDNN for CUDA 12, or set CMAKE_PREFIX_PATH", done.stderr)

    def test_the_version_alone(self):
        folder = self.toolkit("cuda-12.9", 12090)
        for wanted in ("12", str(folder)):
            self.assertEqual(self.ask("--version", wanted).stdout, "12.9\n")

    def test_make_ends_before_it_builds_if_there_is_no_toolkit(self):
        done = subprocess.run(["make", "-C", TOP, "dist", f"CUDA={self.dir / 'none'}"], capture_output=True, text=True,
                              env=self.env, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("none is no CUDA toolkit", done.stderr)
        self.assertNotIn("deps", done.stdout)

    def test_make_builds_with_the_toolkit_in_a_folder_for_its_version(self):
        folder = self.toolkit("cuda-12.9", 12090)
        told = subprocess.run(["make", "-C", TOP, "-n", "dist", f"CUDA={folder}"], capture_output=True, text=True,
                              env=self.env, check=True).stdout
        self.assertIn("-B build-dist-cuda12.9 ", told)
        self.assertIn(f"-DCMAKE_CUDA_COMPILER=\"$(scripts/cuda-toolkit '{folder}')\"/bin/nvcc -DDP_REQUIRE_CUDA=ON", told)
        self.assertIn("scripts/dist  --name-cuda build-dist-cuda12.9", told)
        plain = subprocess.run(["make", "-C", TOP, "-n", "dist"], capture_output=True, text=True, env=self.env,
                               check=True).stdout
        self.assertIn("-B build-dist ", plain)
        self.assertNotIn("cuda", plain)


if __name__ == "__main__":
    unittest.main()
