"""Component engine of the installed package: programs outside the tree that train the models of dp's trainer."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from kit import package
from kit.cluster import Cluster
from kit.idx_data import train_job, write_idx
from kit.package import run
from kit.rank_lines import lines_of
from kit.waiting import TIMEOUT_S

TOP = pathlib.Path(__file__).resolve().parents[2]
CLASSIFIER = TOP / "examples/library/classifier"
AS_THE_TRAINER = pathlib.Path(__file__).parent / "programs/as_the_trainer.cc"
RIGHT = re.compile(r"rank (\d) of 2: (\d+) of 16 unseen pictures are right")
# Everything else would meet other names in the program.
PUBLIC = re.compile(r"^((typeinfo( name)?|vtable) for )?dp::distributed::(Network|Sgd|AdamW|DistError)\b|^DP_0$")

# Learns the exclusive or, without process groups.
ALONE = """cmake_minimum_required(VERSION 3.25)
project(alone LANGUAGES CXX)
find_package(dp REQUIRED COMPONENTS engine)
add_executable(alone alone.cc)
target_link_libraries(alone PRIVATE dp::engine)
"""
ALONE_PROGRAM = """#include <dp/engine.h>
#include <cstdio>
#include <vector>
int main() try {
  using namespace dp::model;
  dp::Network network({{"", Linear{.out = 8}}, {"", Relu{}}, {"", Linear{.out = 2}}}, {.input = {2}, .batch_size = 4});
  dp::Sgd sgd(network, {.learning_rate = 0.1, .momentum = 0.9});
  const std::vector<float> inputs = {0, 0, 0, 1, 1, 0, 1, 1};
  const std::vector<std::int32_t> labels = {0, 1, 1, 0};
  for (int step = 0; step < 500; ++step) {
    network.zero_grad();
    network.forward(inputs, labels);
    network.backward();
    sgd.step();
  }
  std::printf("%d of 4\\n", int(network.evaluate(inputs, labels).correct));
  network.forward(inputs, {});
} catch (const dp::DistError& error) {
  std::puts(error.what());
}
"""


def floats_of(weights):
    """The values of all parameters in a file of safetensors, in the order in which they lie there."""
    file = weights.read_bytes()
    return file[8 + int.from_bytes(file[:8], "little"):]


class EngineLibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="dp-engine-library-")))
        cls.root = cls.dir / "root"
        package.install(cls.root)
        cls.classifier = package.build(CLASSIFIER, cls.dir / "classifier", cls.root) / "classifier"

    def assert_learnt(self, lines):
        """Both ranks know nearly every picture, and equally many."""
        said = [RIGHT.fullmatch(line) for line in sorted(lines)]
        self.assertNotIn(None, said, lines)
        self.assertEqual([found[1] for found in said], ["0", "1"])
        self.assertEqual(said[0][2], said[1][2])
        self.assertGreaterEqual(int(said[0][2]), 14)

    def test_ranks_train_a_network_that_dp_computes(self):
        with contextlib.ExitStack() as stack:
            ranks = [stack.enter_context(subprocess.Popen(
                [self.classifier, f"file://{self.dir}/meeting", "2", str(rank)], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})) for rank in range(2)]
            said = [rank.communicate(timeout=TIMEOUT_S)[0].strip() for rank in ranks]
        self.assert_learnt(said)

    def test_it_trains_under_dpctl(self):
        with Cluster() as cluster:
            done = cluster.dpctl("run", "--local", "--nproc-per-node", 2, "--", self.classifier, check=0)
        self.assert_learnt([text for _, text in lines_of(done.stdout)])

    def test_a_program_has_the_bits_of_a_training_job(self):
        program = package.build_program("as_the_trainer", AS_THE_TRAINER.read_text(), self.dir, self.root, "dp::engine",
                                        "distributed engine")
        data = write_idx(self.dir / "data", train=240, test=20, learnable=False)
        weights, values = self.dir / "weights.safetensors", self.dir / "values"
        job = self.dir / "job.json"
        job.write_text(json.dumps(train_job(
            data, seed=5, epochs=2, globalBatchSize=24, evaluateEvery=0, output={"weights": str(weights)},
            model={"layers": [{"flatten": {}}, {"linear": {"out": 30}}, {"relu": {}},
                              {"name": "head", "linear": {"out": 10}}]})))
        with Cluster() as cluster:
            cluster.dpctl("run", "--local", job, check=0)
            cluster.dpctl("run", "--local", "--nproc-per-node", 2, "--", program, data, values, check=0)
        trained, mine = floats_of(weights), values.read_bytes()
        self.assertEqual(len(trained), len(mine))
        self.assertEqual(hashlib.sha256(trained).digest(), hashlib.sha256(mine).digest())

    def test_a_program_without_process_groups_learns(self):
        source = self.dir / "alone-source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(ALONE)
        (source / "alone.cc").write_text(ALONE_PROGRAM)
        said = run(package.build(source, self.dir / "alone", self.root) / "alone").stdout.splitlines()
        self.assertEqual(said, ["4 of 4", "the batch has 0 labels for 4 samples; give 4"])

    def test_only_public_names_are_exported(self):
        names = package.exported_names(self.root / "lib/libdp_engine.so")
        self.assertIn("dp::distributed::Network::zero_grad()", names)
        self.assertEqual([name for name in names if not PUBLIC.match(name)], [])


if __name__ == "__main__":
    unittest.main()
