"""The installed library, as a user of `find_package(dp)` meets it: a project outside the tree, built and run."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

from kit import hosts as test_hosts
from kit import package, pytorch
from kit.cluster import Cluster
from kit.package import WARNINGS, run
from kit.rank_lines import lines_of
from kit.waiting import TIMEOUT_S

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = TOP / "examples/library/train"
NETWORK = TOP / "examples/library/network"
SPAWNED = TOP / "examples/library/spawned"
TRAINED = "rank {} of {}: y = 2.000 x + 1.000"
# Names of dp's engine, and of libraries, would meet others in the program.
PUBLIC = re.compile(r"^((typeinfo( name)?|vtable) for )?dp::distributed::|^DP_0$")
HEAVY = re.compile(r"lib(grpc|gpr|protobuf|spdlog|fmt|ssl|crypto|dnnl|sqlite3)\b")

GLOO_PROGRAM = """#include <dp/distributed.h>

#include <cstdio>
#include <thread>
#include <vector>

// Two ranks that are threads add up over Gloo.
int main() {
  const dp::HashStore store;
  int failed = 0;
  const auto rank = [&](int number) {
    try {
      const dp::ProcessGroup group({.backend = "gloo", .store = store, .world_size = 2, .rank = number});
      std::vector<int> data = {number + 1};
      dp::all_reduce(data, dp::ReduceOp::kSum, group);
      if (number == 0) std::printf("%d\\n", data[0]);
      dp::destroy_process_group(group);
    } catch (const dp::DistError& error) {
      if (number == 0) std::fprintf(stderr, "%s\\n", error.what());
      if (number == 0) failed = 1;
    }
  };
  std::jthread one([&] { rank(1); });
  rank(0);
  return failed;
}
"""

# Serves PyTorch's own store until its input ends, as an agent of torchrun does.
PYTORCH_STORE = """import sys, torch.distributed
store = torch.distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""

# Errors cross from a rank's process, and from a device's thread, to handlers of the program.
FAILING = """#include <dp/data_parallel.h>
#include <dp/spawn.h>
#include <cstdio>
#include <stdexcept>
struct Model : dp::ReplicableModule {
  std::vector<dp::Parameter> parameters() override { return {}; }
  std::unique_ptr<ReplicableModule> replicate() const override { return std::make_unique<Model>(); }
  dp::Tensor forward(const dp::Arguments&) override { throw std::out_of_range("no such row"); }
  void backward(const dp::Tensor&) override {}
};
int main() {
  try {
    dp::spawn([](int rank) { if (rank == 1) throw std::runtime_error("no such dataset"); }, 2);
  } catch (const dp::SpawnError& error) {
    std::printf("rank %d: %s\\n", error.rank(), error.what());
  }
  Model model;
  dp::DataParallel parallel(model, {.device_ids = {"cpu:0", "cpu:1"}});
  try {
    parallel.forward({dp::zeros({4, 1})});
  } catch (const dp::DistError& error) {
    std::puts(error.what());
    try {
      std::rethrow_if_nested(error);
    } catch (const std::out_of_range& cause) {
      std::printf("out of range: %s\\n", cause.what());
    }
  }
}
"""


# Sums so much that both levels take part, and prints the backend with the sum.
SUM_OF_RANKS = """#include <dp/distributed.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
int main(int, char** argv) {
  const int rank = std::atoi(argv[3]);
  dp::init_process_group({.init_method = argv[1], .world_size = std::atoi(argv[2]), .rank = rank});
  std::vector<float> data(1000000, float(1 << rank));
  dp::all_reduce(data);
  std::printf("%s %.0f\\n", dp::get_backend().c_str(), data.back());
  dp::destroy_process_group();
}
"""


class LibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="dp-library-")))
        cls.root = cls.dir / "root"
        package.install(cls.root)
        cls.train = cls.built(EXAMPLE, "train") / "train"
        cls.spawned = cls.built(SPAWNED, "spawned") / "spawned"

    @classmethod
    def built(cls, source, name):
        return package.build(source, cls.dir / name, cls.root)

    def project(self, name, *lines):
        """Configures a project with these lines; returns what CMake says."""
        source = self.dir / f"{name}-source"
        source.mkdir()
        text = ["cmake_minimum_required(VERSION 3.25)", f"project({name} LANGUAGES CXX)", *lines]
        (source / "CMakeLists.txt").write_text("\n".join(text) + "\n")
        done = package.configure(source, self.dir / name, self.root)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def ranks(self, commands, env=lambda rank: {}):
        """Runs the commands side by side; returns what each printed."""
        with contextlib.ExitStack() as stack:
            started = [stack.enter_context(subprocess.Popen(
                [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={**os.environ, **env(rank)})) for rank, command in enumerate(commands)]
            for process in started:
                stack.callback(process.kill)
            return [process.communicate(timeout=TIMEOUT_S)[0].strip() for process in started]

    def test_the_example_trains_through_a_file(self):
        url = f"file://{self.dir}/meeting"
        said = self.ranks([[self.train, url, 2, rank] for rank in range(2)])
        self.assertEqual(said, [TRAINED.format(rank, 2) for rank in range(2)])
        self.assertFalse((self.dir / "meeting").exists())

    def test_the_example_trains_by_the_environment(self):
        with socket.socket() as kept:  # bound, so that nobody else gets the port; rank 0 reuses it
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind(("127.0.0.1", 0))
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(kept.getsockname()[1]), "WORLD_SIZE": "2"}
            said = self.ranks([[self.train]] * 2, lambda rank: {**place, "RANK": str(rank)})
        self.assertEqual(said, [TRAINED.format(rank, 2) for rank in range(2)])

    def test_gloo_is_loaded_from_beside_the_library(self):
        program = package.build_program("gloo", GLOO_PROGRAM, self.dir, self.root)
        self.assertEqual(run(program).stdout, "3\n")
        module = next((self.root / "lib").glob("libdp_distributed_gloo-*.so"))
        moved = module.rename(module.with_suffix(".moved"))
        try:
            done = run(program)
        finally:
            moved.rename(module)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "backend gloo cannot be loaded: .*libdp_distributed_gloo.*; install the library's files")

    def test_the_example_says_which_variables_are_missing(self):
        done = run("env", "-i", self.train)
        self.assertEqual(done.returncode, 1)
        self.assertIn("train: init method env:// misses the environment variables MASTER_ADDR, ", done.stderr)

    def test_the_example_trains_under_dpctl(self):
        with Cluster() as cluster:
            for nodes, ranks in ((1, 2), (2, 1)):
                for store in ("relay", "program"):
                    done = cluster.dpctl("run", "--local", "--nnodes", nodes, "--nproc-per-node", ranks, "--store", store,
                                         "--", self.train, check=0)
                    self.assertEqual(sorted(text for _, text in lines_of(done.stdout)),
                                     [TRAINED.format(rank, 2) for rank in range(2)], done.stderr)

    @unittest.skipIf(pytorch.why_not(), pytorch.why_not())
    def test_the_example_trains_in_a_store_that_pytorch_serves(self):
        with subprocess.Popen([pytorch.PYTHON, "-c", PYTORCH_STORE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as server:
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": server.stdout.readline().strip(), "WORLD_SIZE": "2",
                     "TORCHELASTIC_USE_AGENT_STORE": "True"}
            said = self.ranks([[self.train]] * 2, lambda rank: {**place, "RANK": str(rank)})
            server.stdin.close()
        self.assertEqual(said, [TRAINED.format(rank, 2) for rank in range(2)])

    def test_a_network_of_ones_own_trains(self):
        network = self.built(NETWORK, "network") / "network"
        said = self.ranks([[network, f"file://{self.dir}/network-meeting", 3, rank] for rank in range(3)])
        trained = [re.fullmatch(r"rank (\d) of 3: loss (\S+), sin\(1\) is about (\S+)", line) for line in said]
        self.assertNotIn(None, trained, said)
        self.assertEqual([found[1] for found in trained], ["0", "1", "2"])
        self.assertEqual(len({found[2] for found in trained}), 1)
        self.assertLess(float(trained[0][2]), 0.01)
        self.assertAlmostEqual(float(trained[0][3]), 0.841, delta=0.1)

    @unittest.skipIf(test_hosts.why_not(), test_hosts.why_not())
    def test_ranks_on_several_hosts_share_memory_within_each(self):
        program = package.build_program("sum", SUM_OF_RANKS, self.dir, self.root)
        with test_hosts.Hosts(2) as hosts:
            for placed, backend in (((0, 0, 1, 1), "hierarchical"), ((0, 1, 0), "hierarchical"), ((0, 1), "gloo")):
                url = f"file://{self.dir}/meeting-{len(placed)}"
                said = self.ranks([[*hosts.prefix(host), program, url, len(placed), rank]
                                   for rank, host in enumerate(placed)],
                                  lambda rank: {"GLOO_SOCKET_IFNAME": "eth0"})
                self.assertEqual(said, [f"{backend} {2 ** len(placed) - 1}"] * len(placed))

    def test_a_program_spawns_its_ranks_and_deals_samples_to_them(self):
        for size in (1, 2, 3):
            done = run(self.spawned, size)
            self.assertEqual(done.stderr, "")
            self.assertEqual(sorted(done.stdout.splitlines()), [TRAINED.format(rank, size) for rank in range(size)])

    def test_a_program_catches_the_failures_of_ranks_and_of_devices(self):
        program = package.build_program("failing", FAILING, self.dir, self.root)
        said = run(program).stdout.splitlines()
        self.assertEqual(len(said), 3, said)
        self.assertRegex(said[0], r"^rank 1: spawn: rank 1 \(process \d+\) threw an exception: no such dataset$")
        self.assertEqual(said[1:], ["replica 0 on device cpu:0: forward: no such row", "out of range: no such row"])

    def test_the_page_shows_the_example(self):
        page = (TOP / "docs/library.md").read_text()
        for language, name in (("cpp", "train.cc"), ("cmake", "CMakeLists.txt")):
            shown = re.search(rf"```{language}\n(.*?)```", page, re.DOTALL).group(1)
            self.assertEqual(shown, (EXAMPLE / name).read_text(), name)
        self.assertLessEqual(len((EXAMPLE / "train.cc").read_text().splitlines()), 40)

    def test_a_component_that_is_not_there_is_an_error(self):
        code, said = self.project("unknown", "find_package(dp REQUIRED COMPONENTS tensors)")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"component 'tensors' is unknown; dp [\d.]+ has: distributed, engine, plugin, torch")

    def test_libtorch_that_is_not_found_is_an_error_that_says_where_it_may_be(self):
        code, said = self.project("without-torch", "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH FALSE)",
                                  "find_package(dp REQUIRED COMPONENTS torch)")
        self.assertEqual(code, 1)
        self.assertIn("component 'torch' finds no LibTorch in CMAKE_PREFIX_PATH; add what python3 -c", said)

    def test_an_optional_component_may_be_missing_and_none_means_all(self):
        code, said = self.project("optional", "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH FALSE)",
                                  "find_package(dp REQUIRED OPTIONAL_COMPONENTS torch)",
                                  'message(STATUS "torch ${dp_torch_FOUND}")')
        self.assertEqual(code, 0, said)
        self.assertIn("torch FALSE", said)
        code, said = self.project("all", "find_package(dp REQUIRED)", "get_target_property(x dp::distributed TYPE)",
                                  'message(STATUS "it is a ${x}")')
        self.assertEqual(code, 0, said)
        self.assertIn("it is a SHARED_LIBRARY", said)

    def test_another_version_is_not_found(self):
        code, said = self.project("later", "find_package(dp 9.0 REQUIRED)")
        self.assertEqual(code, 1)
        self.assertIn('requested version "9.0"', said)

    def test_only_public_names_are_exported(self):
        names = package.exported_names(self.root / "lib/libdp_distributed.so")
        self.assertIn("dp::distributed::is_available()", names)
        self.assertEqual([name for name in names if not PUBLIC.match(name)], [])

    def test_the_library_has_a_version_and_needs_no_service_libraries(self):
        dynamic = run("readelf", "--dynamic", "--wide", self.root / "lib/libdp_distributed.so").stdout
        self.assertIn("soname: [libdp_distributed.so.0]", dynamic)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if HEAVY.match(name) or "gloo" in name], [])

    def test_public_headers_include_only_the_standard_library(self):
        headers = sorted((self.root / "include/dp").iterdir())
        self.assertIn("distributed.h", [header.name for header in headers])
        for header in headers:
            if header.name.startswith("libtorch"):
                continue  # needs LibTorch; tests/interop compiles it
            for name in re.findall(r"#include [<\"](.*)[>\"]", header.read_text()):
                self.assertRegex(name, r"^(dp/)?[a-z_]+(\.h)?$", header)
            alone = self.dir / f"{header.stem}_alone.cc"
            alone.write_text(f"#include <dp/{header.name}>\n")
            done = run("c++", "-std=c++20", *WARNINGS.split(), "-Wconversion", "-fsyntax-only", "-I", self.root / "include", alone)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
