"""A GPT on text, with real processes: ranks agree, resumed training matches bit by bit, files
are checked."""

import json
import struct
import unittest

from kit.cluster import Cluster

# Small enough to take seconds: a block of attention and a block of linear layers, with residuals.
MODEL = {"layers": [
    {"name": "wte", "embedding": {"features": 16, "initStd": 0.02}},
    {"name": "wpe", "positions": {"initStd": 0.02}},
    {"layerNorm": {}}, {"linear": {"out": 48, "initStd": 0.02}}, {"causalAttention": {"heads": 2}},
    {"linear": {"out": 16}}, {"name": "x", "add": {"layer": "wpe"}},
    {"layerNorm": {}}, {"linear": {"out": 32}}, {"gelu": {}}, {"linear": {"out": 16}},
    {"add": {"layer": "x"}}, {"layerNorm": {}}, {"tiedLinear": {"embedding": "wte"}}]}


def text():
    """Words in a repeating order, so that there is something to learn."""
    words = ["rank", "world", "step", "store", "bucket"]
    return " ".join(words[i * i % len(words)] for i in range(1200)).encode()


class GptTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.worker(slots=2)
        self.file = self.cluster.dir / "text.txt"
        self.file.write_bytes(text())

    def job(self, name, ranks, **train):
        weights = str(self.cluster.dir / f"{name}.safetensors")
        return {
            "apiVersion": "dp/v1", "kind": "Job", "name": name, "ranks": ranks,
            "train": {
                "seed": 1, "epochs": 2, "globalBatchSize": 16, "model": MODEL,
                "data": {"kind": "text", "train": [str(self.file)], "context": 16},
                "optimizer": {"adamw": {"learningRate": 0.01}}, "output": {"weights": weights},
                **train,
            },
        }

    def run_job(self, job, *flags):
        """Submits and waits; returns its id."""
        path = self.cluster.dir / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        number = self.cluster.dpctl("submit", path, "-o", "name", *flags, check=0).stdout.strip()
        self.assertEqual(self.cluster.wait(number), 0, self.cluster.dpctl("logs", number).stdout)
        return number

    def events(self, job, kind):
        lines = self.cluster.dpctl("logs", job, "--metrics", check=0).stdout.splitlines()
        events = [json.loads(line[line.index("{"):]) for line in lines if "{" in line]
        return [event for event in events if event["event"] == kind]

    def weights(self, name):
        return (self.cluster.dir / f"{name}.safetensors").read_bytes()

    def test_one_rank_and_two_take_the_same_steps(self):
        curves = [[step["loss"] for step in self.events(self.run_job(self.job(f"r{n}", n)), "step")]
                  for n in (1, 2)]
        self.assertEqual(len(curves[0]), len(curves[1]))
        self.assertGreater(len(curves[0]), 20)
        for one, two in zip(*curves):
            self.assertAlmostEqual(one, two, delta=1e-3 * one)
        self.assertLess(curves[0][-1], 0.6 * curves[0][0])

    def test_the_test_counts_windows_and_guesses_tokens(self):
        last = self.events(self.run_job(self.job("counts", 2)), "eval")[-1]
        tokens = len(text()) // 10
        self.assertEqual(last["samples"], (tokens - 1) // 16)
        self.assertGreater(last["accuracy"], 0.2)
        self.assertLessEqual(last["accuracy"], 1)

    def test_another_job_goes_on_with_the_bits_of_one_that_was_never_broken_off(self):
        saving = {"dir": str(self.cluster.dir / "checkpoints"), "everySteps": 5}
        self.run_job(self.job("undisturbed", 2))
        first = self.run_job(self.job("first", 2, maxSteps=8, checkpoint=saving))
        self.run_job(self.job("second", 2), "--resume", f"{first}@latest")
        self.assertEqual(self.weights("second"), self.weights("undisturbed"))

    def test_another_optimizer_does_not_go_on(self):
        saving = {"dir": str(self.cluster.dir / "checkpoints"), "everySteps": 5}
        first = self.run_job(self.job("first", 1, maxSteps=2, checkpoint=saving))
        sgd = self.job("sgd", 1, optimizer={"sgd": {"learningRate": 0.1}})
        path = self.cluster.dir / "sgd.json"
        path.write_text(json.dumps(sgd))
        number = self.cluster.dpctl("submit", path, "-o", "name", "--resume", f"{first}@latest",
                                    check=0).stdout.strip()
        self.assertNotEqual(self.cluster.wait(number), 0)
        lines = "\n".join(self.cluster.describe(number)["failure"]["lastLines"])
        self.assertIn("made with train.optimizer adamw, and this job has sgd", lines)

    def test_token_files_train_and_a_token_beyond_the_vocabulary_fails_the_job_with_its_place(self):
        tokens = list(text()[:2000])
        self.file.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        data = {"kind": "tokens", "train": [str(self.file)], "context": 16, "vocabulary": 128}
        self.run_job(self.job("tokens", 1, data=data))
        job = self.job("small", 1, data={**data, "vocabulary": 100})
        number = self.cluster.submit(job)
        self.assertNotEqual(self.cluster.wait(number), 0)
        lines = "\n".join(self.cluster.describe(number)["failure"]["lastLines"])
        self.assertRegex(lines, r"text.txt has token 1\d\d at place \d+; of a vocabulary of 100")

    def test_a_dry_run_names_what_is_wrong(self):
        path = self.cluster.dir / "wrong.json"
        path.write_text(json.dumps(self.job("wrong", 1)))
        for override, said in {
            "train.data.context=0": "train.data.context is 0; expected 1 to 65536",
            "train.data.kind=audio": 'train.data.kind is "audio"; expected images, cifar10, cifar100',
            "train.optimizer.adamw.beta2=1": "beta2 is 1; expected at least 0 and below 1",
            "train.model.layers[4].causalAttention.heads=5": "for each of 5 heads",
        }.items():
            done = self.cluster.dpctl("submit", path, "--dry-run", "--set", override, check=2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
