"""Layers of a user's library in training jobs: built outside the tree against the installed package."""

import json
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

from kit import package
from kit.cluster import Cluster
from kit.idx_data import train_job, write_idx
from kit.weights import tensors_of

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = TOP / "examples/library/plugin"
LAYERS = TOP / "worker/engine/plugin/testing/good_plugin.cc"
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(layers LANGUAGES CXX)
find_package(dp REQUIRED COMPONENTS plugin)
add_library(layers MODULE layers.cc)
target_link_libraries(layers PRIVATE dp::plugin)
"""


def with_other_bytes(library, path):
    """A library of the same code and another hash."""
    path.write_bytes(library.read_bytes() + b"\0")
    return path


class PluginTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="dp-plugin-")))
        package.install(cls.dir / "root")
        cls.prelu = package.build(EXAMPLE, cls.dir / "prelu", cls.dir / "root") / "libprelu.so"
        source = cls.dir / "source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CMAKE)
        shutil.copyfile(LAYERS, source / "layers.cc")
        cls.layers = package.build(source, cls.dir / "layers", cls.dir / "root") / "liblayers.so"
        cls.data = write_idx(cls.dir / "data", train=600, test=100)

    def setUp(self):
        self.cluster = self.enterContext(Cluster())

    def plugin(self, layer, library=None, **config):
        return {"plugin": {"library": str(library or self.layers), "layer": layer, "config": config}}

    def job(self, name, model, **train):
        return train_job(self.data, name=name, model=model, **{
            "epochs": 2, "output": {"weights": str(self.cluster.dir / f"{name}.safetensors")}, **train})

    def around(self, layer):
        """A model with this layer in its middle."""
        return {"layers": [{"flatten": {}}, {"linear": {"out": 32}}, {"name": "mine", **layer}, {"linear": {}}]}

    def run_job(self, job, *flags):
        """Returns the job's log."""
        path = self.cluster.dir / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        number = self.cluster.dpctl("submit", path, "-o", "name", *flags, check=0).stdout.strip()
        self.assertEqual(self.cluster.wait(number), 0, self.cluster.dpctl("logs", number).stdout)
        return self.cluster.dpctl("logs", number).stdout

    def failure(self, job, *flags):
        """The message and the last lines of a job that fails."""
        path = self.cluster.dir / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        number = self.cluster.dpctl("submit", path, "-o", "name", *flags, check=0).stdout.strip()
        self.assertNotEqual(self.cluster.wait(number), 0)
        failure = self.cluster.describe(number)["failure"]
        return "\n".join([failure["message"], *failure["lastLines"]])

    def tensors(self, name):
        return tensors_of(self.cluster.dir / f"{name}.safetensors")

    def test_the_example_trains_on_two_workers(self):
        for name in "worker-a", "worker-b":
            self.cluster.worker(slots=1, name=name)
        model = self.around({"plugin": {"library": str(self.prelu), "config": {"slope": 0.1}}})
        path = self.cluster.dir / "job.json"
        path.write_text(json.dumps(self.job("example", model)))
        done = self.cluster.dpctl("run", path, check=0)
        self.assertGreater(float(done.stdout.strip().splitlines()[-1].split("=")[1]), 0.9)
        self.assertIn(b'"mine.weight"', (self.cluster.dir / "example.safetensors").read_bytes())
        shown = self.cluster.dpctl("submit", "--dry-run", path, check=0).stdout
        self.assertIn(str(self.prelu), shown)
        self.assertIn("slope: 0.1", shown)

    def test_a_twin_has_the_bits_of_the_built_in_layer(self):
        self.cluster.worker(slots=2)
        options = {"clipNorm": 1, "ema": {"decay": 0.9}, "accumulate": 2,
                   "groups": [{"match": "mine.*", "learningRateFactor": 0.5}]}
        self.run_job(self.job("built-in", self.around({"rmsNorm": {}}), **options))
        self.run_job(self.job("mine", self.around(self.plugin("rmsNorm")), **options))
        self.assertEqual(self.tensors("built-in"), self.tensors("mine"))

    def test_a_whole_model_survives_a_killed_rank(self):
        self.cluster.worker(slots=2)
        model = self.plugin("mlp", hidden=24, classes=10)
        log = self.run_job(self.job("undisturbed", model))
        self.assertRegex(log, r"epoch 2/2 .*accuracy")
        job = self.job("struck", model, checkpoint={"dir": str(self.cluster.dir / "saved"), "everySteps": 5})
        job = {**job, "restart": {"maxRestarts": 1}, "env": {"TRAINER_STOPS_AT": "0:step:13"}}
        number = self.cluster.submit(job)
        self.cluster.follow_until(number, "fault point")
        os.kill(self.cluster.rank_pid(number, 1), signal.SIGKILL)
        self.assertEqual(self.cluster.wait(number), 0)
        self.assertIn("goes on from step", self.cluster.dpctl("logs", number).stdout)
        self.assertEqual(self.tensors("struck"), self.tensors("undisturbed"))

    def test_a_model_is_evaluated_if_the_caller_names_its_job_file(self):
        self.cluster.worker(slots=2)
        job = self.job("mine", self.plugin("mlp", hidden=24, classes=10))
        log = self.run_job(job)
        weights, file = self.cluster.dir / "mine.safetensors", self.cluster.dir / "mine.json"
        refused = self.cluster.dpctl("eval", weights, "--data", self.data)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"a layer of the plug-in {self.layers}", refused.stderr)
        found = json.loads(self.cluster.dpctl("eval", weights, "--model", file, "-o", "json", check=0).stdout)
        self.assertIn(f"accuracy {found['accuracy']:.4f}", log)

    def test_another_library_goes_on_with_a_warning_and_other_parameters_do_not(self):
        self.cluster.worker(slots=2)
        library = shutil.copyfile(self.layers, self.cluster.dir / "layers.so")
        checkpoint = {"dir": str(self.cluster.dir / "saved"), "everySteps": 100}
        first = self.job("first", self.plugin("mlp", library, hidden=24, classes=10), maxSteps=5, checkpoint=checkpoint)
        self.run_job(first)
        with_other_bytes(self.layers, self.cluster.dir / "new.so").replace(library)
        second = {**first, "name": "second", "train": {**first["train"], "maxSteps": 8}}
        log = self.run_job(second, "--resume", "first@latest")
        self.assertRegex(log, r"the plug-in was \S+layers.so of SHA-256 \w{12}\.\.\. and is \S+layers.so of SHA-256")
        third = self.job("third", self.plugin("mlp", library, hidden=25, classes=10))
        self.assertIn("made with the tensor model.down 10x24, and this job has "
                      "model.down 10x25", self.failure(third, "--resume", "first@latest"))

    def test_a_rank_with_another_file_is_named_with_both_hashes(self):
        for name, extra in ("worker-a", False), ("worker-b", True):
            folder = self.cluster.dir / name
            folder.mkdir()
            if extra:
                with_other_bytes(self.layers, folder / "layers.so")
            else:
                shutil.copyfile(self.layers, folder / "layers.so")
            self.cluster.worker(slots=1, name=name, prefix=["env", "-C", folder])
        said = self.failure(self.job("differ", self.around(self.plugin("rmsNorm", "/proc/self/cwd/layers.so"))))
        self.assertRegex(said, r"rank 1 on worker worker-[ab]: plug-in library '/proc/self/cwd/layers.so' has SHA-256 "
                         r"\w{64}, and that of rank 0 has \w{64}; put the same file on every host")

    def test_faults_of_a_library_are_named(self):
        self.cluster.worker(slots=2)
        stray = self.dir / "layers" / "nowhere.so"
        for name, plugin, said in (
                ("missing", self.plugin("rmsNorm", stray), f"plug-in library '{stray}' is not on this host"),
                ("unknown", self.plugin("rms"), "has no layer 'rms'; there are: rmsNorm, mlp, center, faulty"),
                ("config", self.plugin("rmsNorm", epsilom=1), "config has an unknown field 'epsilom'"),
                ("throws", self.plugin("faulty", at="forward", after=3),
                 f"layer 'mine' (plugin 'faulty' of {self.layers}): forward: told to fail"),
                ("nan", self.plugin("faulty", at="nan", after=3), "no numbers (NaN) to its output")):
            with self.subTest(name):
                self.assertIn(said, self.failure(self.job(name, self.around(plugin))))

    def test_run_local_takes_a_relative_library_and_checks_the_file(self):
        shutil.copyfile(self.layers, self.cluster.dir / "mine.so")
        job = self.job("local", self.around(self.plugin("rmsNorm", "mine.so")))
        (self.cluster.dir / "job.json").write_text(json.dumps(job))
        self.cluster.dpctl("run", "--local", "job.json", check=0, cwd=self.cluster.dir)
        (self.cluster.dir / "mine.so").write_text("no library")
        done = self.cluster.dpctl("run", "--local", "job.json", check=2, cwd=self.cluster.dir)
        self.assertIn("mine.so is no shared library", done.stderr)
        (self.cluster.dir / "mine.so").unlink()
        done = self.cluster.dpctl("run", "--local", "job.json", check=2, cwd=self.cluster.dir)
        self.assertIn("mine.so does not exist", done.stderr)


if __name__ == "__main__":
    unittest.main()
