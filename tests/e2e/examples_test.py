"""The job files in examples/, as they stand but shorter."""

import pathlib
import random
import re
import unittest

from kit.cluster import Cluster
from kit.idx_data import write_idx
from kit.sample_files import samples, write_folder

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.worker(slots=2)

    def losses(self, name, *overrides):
        """The loss on the test set after each epoch."""
        flags = [word for text in overrides for word in ("--set", text)]
        done = self.cluster.dpctl("run", EXAMPLES / name, *flags, check=0)
        return [float(loss) for loss in re.findall(r"test loss (\S+)", done.stdout)]

    def test_the_norm_of_the_output_falls(self):
        losses = self.losses("output_norm.yaml")
        self.assertEqual(len(losses), 100)
        self.assertLess(losses[-1], losses[0] / 2)

    def test_the_coordinator_runs_the_optimizer(self):
        losses = self.losses("parameter_server.yaml", "train.data.synthetic.samples=640")
        self.assertEqual(len(losses), 2)
        self.assertLess(losses[-1], losses[0])

    def test_a_table_is_predicted(self):
        numbers = random.Random(1)
        table = self.cluster.dir / "table.csv"
        lines = ["a,b,c,y1,y2"]
        for _ in range(600):
            a, b, c = (numbers.uniform(-1, 1) for _ in range(3))
            lines.append(f"{a},{b},{c},{a * b},{b - c}")
        table.write_text("\n".join(lines) + "\n")
        losses = self.losses("regression.yaml", f"train.data.train=[{table}]")
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], losses[0] / 5)

    def test_the_recipe_of_gpt2_on_a_small_gpt(self):
        text = self.cluster.dir / "text.txt"
        text.write_text("the quick brown fox jumps over the lazy dog. " * 80)
        losses = self.losses(
            "gpt2_124m_recipe.yaml", "slots=any", "train.device=cpu", "train.precision=float32",
            "train.data.kind=text", f"train.data.train=[{text}]", "train.data.test=[]",
            "train.data.context=16", "train.data.vocabulary=256", "train.model.preset=gpt",
            "train.globalBatchSize=32", "train.accumulate=4", "train.epochs=2", "train.schedule.warmupSteps=4",
            f"train.checkpoint.dir={self.cluster.dir}", f"train.output.weights={self.cluster.dir}/w.safetensors")
        self.assertEqual(len(losses), 2)
        self.assertLess(losses[-1], losses[0])

    def test_a_residual_network_on_two_ranks(self):
        data = write_idx(self.cluster.dir / "data", train=64, test=16)
        losses = self.losses("fashion_mnist_resnet18.yaml", f"train.data.dir={data}",
                                  "train.globalBatchSize=16", "train.epochs=1")
        self.assertEqual(len(losses), 1)

    def test_a_folder_of_images_on_two_ranks(self):
        folder = write_folder(self.cluster.dir / "images", samples(48, 24 * 24, classes=2), 24, 24)
        losses = self.losses("image_folder.yaml", f"train.data.dir={folder}", "train.data.size=[32,32]",
                             "train.data.validation=0.25", "train.globalBatchSize=12", "train.epochs=2")
        self.assertEqual(len(losses), 2)

    def test_two_devices_learn_the_classes(self):
        self.assertLess(self.losses("data_parallel.yaml")[-1], 0.5)

    def test_each_strategy(self):
        for name in ["data_parallel", "model_parallel", "local_sgd"]:
            losses = self.losses(f"{name}.yaml", "train.data.synthetic={shape: [1, 28, 28], samples: 512, testSamples: 100}")
            self.assertEqual(len(losses), 2, name)
            self.assertLess(losses[-1], losses[0], name)


if __name__ == "__main__":
    unittest.main()
