"""Trained models are evaluated and applied with real programs: from a job, from its file of weights
alone, and from its checkpoint."""

import json
import struct
import unittest

from kit.cluster import Cluster
from kit.sample_files import png, samples, write_arrays, write_csv, write_folder

MODEL = {"layers": [{"flatten": {}}, {"linear": {"out": 16}}, {"relu": {}}, {"batchNorm": {}}, {"linear": {"out": 4}}]}
FLAT = {"layers": [{"linear": {"out": 16}}, {"relu": {}}, {"linear": {"out": 4}}]}
PAIRS = samples(120, 64, 4)
WORDS = "the cat sat on the mat and the dog lay by the log. " * 40


class InferenceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())
        cls.cluster.worker(slots=3)
        cls.dir = cls.cluster.dir / "sets"
        cls.dir.mkdir()

    def train(self, name, data, model=MODEL, ranks=1, **train):
        """Trains, and returns the job, its last evaluation, and its file of weights."""
        weights = self.dir / f"{name}.safetensors"
        job = self.cluster.submit({
            "apiVersion": "dp/v1", "kind": "Job", "name": name, "ranks": ranks,
            "train": {"seed": 1, "epochs": 2, "globalBatchSize": 16, "model": model, "data": data,
                      "optimizer": {"sgd": {"learningRate": 0.05}}, "output": {"weights": str(weights)},
                      "checkpoint": {"dir": str(self.dir / "checkpoints"), "everySteps": 5}, **train}})
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("logs", job).stdout)
        lines = self.cluster.dpctl("logs", job, "--metrics", check=0).stdout.splitlines()
        events = [json.loads(line[line.index("{"):]) for line in lines if "{" in line]
        return job, [event for event in events if event["event"] == "eval"][-1], weights

    def dpctl(self, *words):
        return json.loads(self.cluster.dpctl(*words, "-o", "json", check=0).stdout)

    def assert_same_bits(self, found, event):
        self.assertEqual(found["loss"], event["loss"])
        self.assertEqual(found["accuracy"], event.get("accuracy"))
        self.assertEqual(found["samples"], event["samples"])

    def test_a_file_alone_gives_the_bits_of_the_training(self):
        for ranks in (1, 3):
            data = {"kind": "imageFolder", "dir": write_folder(self.dir / f"images{ranks}", PAIRS, 8, 8),
                    "size": [8, 8], "channels": 1, "mean": 0.3, "std": 0.2, "validation": 0.2}
            _, event, weights = self.train(f"images{ranks}", data, ranks=ranks)
            self.assert_same_bits(self.dpctl("eval", weights, "--data", data["dir"]), event)

    def test_a_job_gives_its_model_its_weights_and_its_test_set(self):
        inputs, labels = write_arrays(self.dir, PAIRS, (8, 8))
        data = {"kind": "arrays", "validation": 0.25, "arrays": {"train": {"inputs": inputs, "labels": labels}}}
        job, event, weights = self.train("arrays", data, ema={"decay": 0.9})
        self.assert_same_bits(self.dpctl("eval", job), event)
        [checkpoint, *_] = self.dpctl("checkpoints", job)["items"]
        self.assert_same_bits(self.dpctl("eval", checkpoint["path"], "--model", self.job_file(data)), event)
        file = weights.read_bytes()
        weights.unlink()
        self.assert_same_bits(self.dpctl("eval", job), event)
        self.cluster.dpctl("weights", "pull", job, weights, check=0)
        self.assertEqual(weights.read_bytes(), file)
        weights.unlink()
        self.cluster.dpctl("weights", "rm", job, check=0)
        done = self.cluster.dpctl("eval", job)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"left its weights in {weights} on worker", done.stderr)

    def job_file(self, data):
        path = self.dir / "job.json"
        path.write_text(json.dumps({"apiVersion": "dp/v1", "kind": "Job", "name": "a", "train": {
            "seed": 1, "globalBatchSize": 16, "model": MODEL, "data": data, "ema": {"decay": 0.9},
            "optimizer": {"sgd": {"learningRate": 0.05}}}}))
        return path

    def test_tables_are_applied_by_the_names_of_their_columns(self):
        table = write_csv(self.dir / "a.csv", PAIRS)
        _, event, weights = self.train("table", {"kind": "csv", "train": [table], "test": [table],
                                                 "csv": {"labels": "label"}}, model=FLAT)
        self.assert_same_bits(self.dpctl("eval", weights, "--data", table), event)
        items = self.dpctl("predict", weights, table, "--top", "1")["items"]
        right = sum(item["classes"][0]["class"] == label for item, (_, label) in zip(items, PAIRS))
        self.assertEqual(right / len(PAIRS), event["accuracy"])
        row = ",".join(repr(value / 255) for value in PAIRS[5][0])
        [alone] = self.dpctl("predict", weights, row, "--top", "1")["items"]
        self.assertEqual(alone["classes"][0]["class"], items[5]["classes"][0]["class"])

    def test_images_are_named_by_the_folders_of_their_classes(self):
        data = {"kind": "imageFolder", "dir": write_folder(self.dir / "named", PAIRS, 8, 8), "size": [8, 8],
                "channels": 1, "validation": 0.2}
        _, _, weights = self.train("named", data, epochs=20)
        image = self.dir / "one.png"
        image.write_bytes(png(8, 8, PAIRS[2][0]))
        self.assertEqual(self.cluster.dpctl("predict", weights, image, "-o", "name", check=0).stdout, "class2\n")

    def test_a_text_goes_on_in_tokens_of_bytes_and_of_an_encoding(self):
        text = self.dir / "text"
        text.write_text(WORDS)
        vocabulary, merges = self.encoding()
        for name, more in (("bytes", {}), ("pairs", {"vocabulary": 258, "bpe": {"vocab": vocabulary, "merges": merges}})):
            data = {"kind": "text", "train": [str(text)], "context": 16, **more}
            job, event, weights = self.train(name, data, model={"preset": "gpt"}, epochs=1, maxSteps=10,
                                             optimizer={"adamw": {"learningRate": 0.003}})
            self.assert_same_bits(self.dpctl("eval", job), event)
            three, again, four = (self.dpctl("predict", job, "the c", "--tokens", "20", "--seed", seed)["items"][0]
                                  for seed in ("3", "3", "4"))
            self.assertEqual(three["tokens"], 20)
            self.assertEqual(three, again)
            self.assertNotEqual(three["text"], four["text"])
        done = self.cluster.dpctl("predict", weights, "the c")
        self.assertEqual(done.returncode, 2)
        self.assertIn("give the files of their encoding with --bpe-vocab and --bpe-merges", done.stderr)

    def encoding(self):
        """A small byte-level encoding: the bytes, " t" and " the"."""
        written = [chr(b) for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
        written += [chr(256 + i) for i in range(256 - len(written))]
        tokens = [*written, "\u0120t", "he"]
        vocabulary, merges = self.dir / "vocab.json", self.dir / "merges.txt"
        vocabulary.write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
        merges.write_text("#version: 0.2\n\u0120 t\nh e\n")
        return str(vocabulary), str(merges)

    def test_converted_tokens_train_as_the_text_does(self):
        text, tokens = self.dir / "book.txt", self.dir / "book.bin"
        text.write_text(WORDS)
        vocabulary, merges = self.encoding()
        self.cluster.dpctl("data", "convert", text, tokens, "--bpe-vocab", vocabulary, "--bpe-merges", merges, check=0)
        self.assertIn(256, struct.unpack(f"<{tokens.stat().st_size // 2}H", tokens.read_bytes()))
        common = {"context": 16, "vocabulary": 258}
        encoded = {"kind": "text", "train": [str(text)], "bpe": {"vocab": vocabulary, "merges": merges}, **common}
        losses = [self.train(f"book{i}", data, model={"preset": "gpt"}, epochs=1, maxSteps=3)[1]["loss"]
                  for i, data in enumerate((encoded, {"kind": "tokens", "train": [str(tokens)], **common}))]
        self.assertEqual(losses[0], losses[1])

    def test_weights_diff_tells_a_training_from_another(self):
        table = write_csv(self.dir / "d.csv", PAIRS)
        data = {"kind": "csv", "train": [table], "test": [table], "csv": {"labels": "label"}}
        one, same, other = (self.train(name, data, model=FLAT, seed=seed)[2]
                            for name, seed in (("one", 1), ("same", 1), ("other", 2)))
        self.assertEqual(self.cluster.dpctl("weights", "diff", one, same).returncode, 0)
        done = self.cluster.dpctl("weights", "diff", one, other, "-o", "name")
        self.assertEqual(done.returncode, 1)
        self.assertIn("linear0.weight", done.stdout.splitlines())


if __name__ == "__main__":
    unittest.main()
