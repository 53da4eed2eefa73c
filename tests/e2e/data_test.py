"""Data sets of every kind, with real processes: formats of one set train alike, any number of ranks
takes the same steps, and damage names its file."""

import json
import pathlib
import struct
import unittest

from kit.cluster import Cluster
from kit.sample_files import samples, write_arrays, write_csv, write_folder

MODEL = {"layers": [{"flatten": {}}, {"linear": {"out": 16}}, {"relu": {}}, {"linear": {"out": 4}}]}
FLAT = {"layers": MODEL["layers"][1:]}
PAIRS = samples(120, 64, 4)


class DataTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())
        cls.cluster.worker(slots=2)
        cls.dir = cls.cluster.dir / "sets"
        cls.dir.mkdir()
        inputs, labels = write_arrays(cls.dir, PAIRS, (8, 8))
        cls.arrays = {"kind": "arrays", "validation": 0.2,
                      "arrays": {"train": {"inputs": inputs, "labels": labels}}}
        cls.folder = {"kind": "imageFolder", "dir": write_folder(cls.dir / "images", PAIRS, 8, 8),
                      "size": [8, 8], "channels": 1, "validation": 0.2}

    def job(self, data, ranks=1, model=MODEL, **train):
        return {"apiVersion": "dp/v1", "kind": "Job", "name": "data", "ranks": ranks,
                "train": {"seed": 1, "epochs": 3, "globalBatchSize": 16, "model": model,
                          "data": data, "optimizer": {"sgd": {"learningRate": 0.1}}, **train}}

    def losses(self, data, ranks=1, model=MODEL, **train):
        """The losses of all steps."""
        job = self.cluster.submit(self.job(data, ranks, model, **train))
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("logs", job).stdout)
        lines = self.cluster.dpctl("logs", job, "--metrics", check=0).stdout.splitlines()
        events = [json.loads(line[line.index("{"):]) for line in lines if "{" in line]
        self.assertIn("eval", {event["event"] for event in events})
        return [event["loss"] for event in events if event["event"] == "step"]

    def failure(self, data, **train):
        job = self.cluster.submit(self.job(data, **train))
        self.assertNotEqual(self.cluster.wait(job), 0)
        return "\n".join(self.cluster.describe(job)["failure"]["lastLines"])

    def assert_alike(self, one, other):
        self.assertEqual(len(one), len(other))
        self.assertGreater(len(one), 10)
        for a, b in zip(one, other):
            self.assertAlmostEqual(a, b, delta=1e-3 * max(a, 0.01))

    def test_arrays_learn_and_any_number_of_ranks_takes_the_same_steps(self):
        alone = self.losses(self.arrays)
        self.assertLess(alone[-1], 0.7 * alone[0])
        self.assert_alike(alone, self.losses(self.arrays, ranks=2))

    def test_arrays_of_two_axes_are_channels_and_places_for_a_sequence_model(self):
        layers = [{"conv1d": {"out": 8, "kernel": 3}}, {"relu": {}}, {"flatten": {}}, {"linear": {"out": 4}}]
        losses = self.losses(self.arrays, model={"layers": layers})
        self.assertLess(losses[-1], losses[0])

    def test_a_table_of_the_same_numbers_trains_alike(self):
        table = {"kind": "csv", "train": [write_csv(self.dir / "a.csv", PAIRS)],
                 "csv": {"labels": "label"}, "validation": 0.2}
        self.assert_alike(self.losses(self.arrays), self.losses(table, model=FLAT))

    def test_augmented_folders_train_alike_on_any_number_of_ranks_and_threads(self):
        augmented = {**self.folder, "augment": {"flip": True, "crop": {"padding": 1},
                                                "resizedCrop": {"areaMin": 0.5}}}
        alone = self.losses(augmented)
        self.assert_alike(alone, self.losses({**augmented, "prefetchThreads": 3}, ranks=2))
        self.assertNotEqual(alone, self.losses(self.folder))

    def test_synthetic_samples_need_no_files(self):
        data = {"kind": "synthetic", "classes": 4, "synthetic": {"shape": [64], "samples": 200}}
        losses = self.losses(data, model=FLAT)
        self.assertLess(losses[-1], losses[0])

    def test_channels_of_cifar_have_means_of_their_own(self):
        directory = self.dir / "cifar"
        directory.mkdir()
        records = b"".join(bytes([label]) + bytes(row) for row, label in samples(40, 3072, 4))
        (directory / "data_batch_1.bin").write_bytes(records)
        (directory / "test_batch.bin").write_bytes(records)
        data = {"kind": "cifar10", "dir": str(directory), "mean": [0.19, 0.2, 0.21],
                "std": [0.1, 0.11, 0.12]}
        self.losses(data, model={"layers": [{"flatten": {}}, {"linear": {"out": 10}}]})

    def test_a_damaged_image_fails_the_job_with_its_name(self):
        broken = write_folder(self.dir / "broken", PAIRS, 8, 8)
        path = pathlib.Path(broken) / "train" / "class1" / "0001.png"
        path.write_bytes(path.read_bytes()[:-20])
        lines = self.failure({**self.folder, "dir": broken})
        self.assertIn("class1/0001.png: is a damaged PNG file", lines)

    def test_a_word_in_a_table_fails_the_job_with_line_and_column(self):
        path = pathlib.Path(write_csv(self.dir / "words.csv", PAIRS))
        lines = path.read_text().splitlines()
        lines[5] = lines[5].replace(lines[5].split(",")[1], "red", 1)
        path.write_text("\n".join(lines))
        data = {"kind": "csv", "train": [str(path)], "csv": {"labels": "label"}, "validation": 0.2}
        self.assertIn("words.csv:6: column 1 ('v1'): 'red' is no finite number",
                      self.failure(data, model=FLAT))

    def test_the_lines_of_inspect_train(self):
        table = write_csv(self.dir / "inspected.csv", PAIRS)
        lines = self.cluster.dpctl("data", "inspect", table, check=0).stdout
        path = self.cluster.dir / "inspected.yaml"
        path.write_text("apiVersion: dp/v1\nkind: Job\nname: inspected\n" + lines[lines.index("train:"):] +
                        "  model: {preset: mlp}\n  optimizer: {sgd: {learningRate: 0.1}}\n")
        done = self.cluster.dpctl("submit", "--dry-run", path)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_convert_writes_what_trains(self):
        table = write_csv(self.dir / "converted.csv", [(row, label) for row, label in PAIRS])
        array = self.dir / "converted.npy"
        self.cluster.dpctl("data", "convert", table, array, check=0)
        header = array.read_bytes()[:128]
        self.assertIn(b"'descr': '<f4'", header)
        self.assertIn(b"'shape': (120, 65)", header)
        first = struct.unpack("<65f", array.read_bytes()[128:128 + 260])
        self.assertAlmostEqual(first[1], PAIRS[0][0][1] / 255, places=6)


if __name__ == "__main__":
    unittest.main()
