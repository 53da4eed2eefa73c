"""Weights that PyTorch programs write begin a job, and those of a job load in PyTorch."""

import json
import os
import pathlib
import subprocess
import unittest

from kit import pytorch
from kit.cluster import Cluster
from kit.idx_data import train_job, write_idx
from kit.pytorch import PYTHON, WITHIN_S
from kit.sample_files import samples, write_folder

PROGRAMS = pathlib.Path(__file__).parent / "programs"
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "fine_tune.yaml"
DOCS = pathlib.Path(__file__).parents[2] / "docs" / "checkpoints.md"
# A learning rate at which a step changes no weight by more than rounding would.
STILL = 1e-9


@unittest.skipIf(pytorch.why_not("torchvision"), pytorch.why_not("torchvision"))
class PytorchWeightsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.worker(slots=2)
        self.start = self.cluster.dir / "start.safetensors"
        self.final = self.cluster.dir / "final.safetensors"

    def python(self, *arguments):
        """Runs the user's program where the job's files are."""
        environment = {**os.environ, "PYTHONPATH": str(PROGRAMS / "safetensors_stand_in")}
        done = subprocess.run([PYTHON, PROGRAMS / "pytorch_weights.py", *map(str, arguments)], env=environment,
                              cwd=self.cluster.dir, capture_output=True, text=True, timeout=WITHIN_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def job(self, images, **train):
        job = train_job(images, output={"weights": str(self.final)}, maxSteps=1,
                        optimizer={"sgd": {"learningRate": STILL}})
        job["train"].update(train, init={"weights": str(self.start), **train.get("init", {})})
        return self.cluster.submit(job)

    def run_job(self, *arguments, **train):
        number = self.job(*arguments, **train)
        self.assertEqual(self.cluster.wait(number), 0, self.cluster.dpctl("logs", number).stdout)
        return self.cluster.dpctl("logs", number).stdout

    def test_a_residual_network_goes_to_dp_and_back(self):
        self.python("resnet", self.start)
        data = write_idx(self.cluster.dir / "data", train=60, test=80)
        output = self.run_job(data, model={"preset": "resnet18-cifar"})
        self.assertLess(float(self.python("differ", self.start, self.final)[0]), 1e-6)
        loss, accuracy = map(float, self.python("evaluate", self.final, data))
        self.assertIn(f"test loss {loss:.3f}", output)
        self.assertIn(f"test accuracy {accuracy:.4f}", output)

    def test_weights_by_the_recipe_begin_a_job(self):
        self.python("recipe", DOCS, 0)
        data = write_idx(self.cluster.dir / "data", train=8, test=8)
        # The recipe's images have three channels, and these have one.
        self.run_job(data, model={"preset": "resnet18"}, init={"drawn": ["conv1.weight"]}, globalBatchSize=8)

    def test_the_example_changes_all_but_the_frozen_stem(self):
        self.python("recipe", DOCS, 0)
        folder = write_folder(self.cluster.dir / "images", samples(48, 24 * 24, classes=2), 24, 24)
        fields = {"data.dir": folder, "data.size": "[32,32]", "data.validation": 0.25, "globalBatchSize": 12,
                  "epochs": 1, "init.weights": self.start, "output.weights": self.final}
        flags = [word for field, value in fields.items() for word in ("--set", f"train.{field}={value}")]
        self.cluster.dpctl("run", EXAMPLE, *flags, check=0)
        self.assertEqual(self.python("differ", self.start, self.final, "conv1.weight"), ["0.0"])
        self.assertGreater(float(self.python("differ", self.start, self.final, "layer1.0.conv1.weight")[0]), 0)

    def test_a_gpt_with_the_names_of_hugging_face_is_read(self):
        self.python("gpt2", self.start)
        text = self.cluster.dir / "text.txt"
        text.write_text("to be or not to be " * 100)
        self.run_job(None, model={"preset": "gpt"}, data={"kind": "text", "train": [str(text)], "context": 16},
                     globalBatchSize=2, optimizer={"adamw": {"learningRate": STILL}})
        self.assertLess(float(self.python("differ", self.start, self.final)[0]), 1e-6)

    def test_a_tensor_that_does_not_fit_fails_the_job_by_its_name(self):
        self.python("resnet", self.start)
        number = self.job(write_idx(self.cluster.dir / "data", train=60, test=8), model={"preset": "resnet34-cifar"})
        self.assertNotEqual(self.cluster.wait(number), 0)
        self.assertIn(f"train.init.weights: {self.start}: there is no tensor 'layer4.2.bn2.bias'",
                      json.dumps(self.cluster.describe(number)).replace("\\", ""))


if __name__ == "__main__":
    unittest.main()
