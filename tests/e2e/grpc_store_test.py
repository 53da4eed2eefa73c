"""dp::GrpcStore of the installed library: the coordinator's store, for C++ programs."""

import os
import pathlib
import re
import subprocess
import unittest

from kit import package
from kit.cluster import Cluster, eventually
from kit.rank_lines import lines_of
from kit.waiting import TIMEOUT_S

# The system's archives of abseil, if it has any.
ABSEIL = sorted(pathlib.Path("/usr/lib").glob("*/libabsl_*.a"))
# Has abseil's locks from these archives, and gRPC would have them from shared libraries.
WITH_ARCHIVES = """#include <absl/synchronization/mutex.h>
#include <dp/distributed.h>
#include <cstdio>
int main() {
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  try {
    dp::GrpcStore({.coordinator = "127.0.0.1:1", .job = 1, .generation = 1});
  } catch (const dp::DistError& error) {
    std::puts(error.what());
  }
}
"""
PROGRAM = pathlib.Path(__file__).parent / "programs/store_ranks.cc"


class GrpcStoreTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package.installed_program(cls, PROGRAM)

    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        for name in ("a", "b"):
            self.cluster.worker(slots=2, name=name)

    def run_ranks(self, ranks, *verb, check=0):
        """Runs the program as a job of as many ranks on each of two workers; returns its lines, sorted."""
        done = self.cluster.dpctl("run", "--nnodes", 2, "--nproc-per-node", ranks // 2, "--", self.program, *verb)
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return sorted(text for _, text in lines_of(done.stdout))

    def submit(self, *verb):
        """Starts the program as a job of one rank; returns the job."""
        return self.cluster.submit({"apiVersion": "dp/v1", "kind": "Job", "name": verb[0],
                                    "command": {"argv": [str(self.program), *map(str, verb)]}})

    def end_of(self, job):
        """Waits for the job; returns its state and what its ranks printed."""
        self.cluster.wait(job)
        lines = lines_of(self.cluster.dpctl("logs", job, check=0).stdout)
        return self.cluster.describe(job)["state"], [text for _, text in lines]

    def await_waiter(self, job):
        """Waits until the coordinator shows that rank 0 waits for the key."""
        self.assertTrue(eventually(lambda: re.search(r"^key +later +rank 0 ",
                                                     self.cluster.dpctl("store", "waiters", job).stdout, re.MULTILINE)))

    def alone(self, *verb, env=None):
        """Runs the program as no rank of a job."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DP_")}
        done = subprocess.run([self.program, *map(str, verb)], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env={**clean, **(env or {})})
        return done.returncode, done.stdout.strip(), done.stderr

    def test_ranks_of_two_workers_meet_and_join_a_group(self):
        self.assertEqual(self.run_ranks(4, "meet"), [f"rank {rank} heard hello of {(rank + 1) % 4}, sum 10, all arrived, one leader"
                                                     for rank in range(4)])

    def test_ranks_of_a_coordinator_without_tls_call_it_in_plain_text(self):
        plain = {"DP_INSECURE": "1"}
        with Cluster(insecure="true") as cluster:
            cluster.worker(slots=2, name="a", env=plain)
            done = cluster.dpctl("run", "--nproc-per-node", 2, "--", self.program, "meet", env=plain, check=0)
        self.assertEqual(sorted(text for _, text in lines_of(done.stdout)),
                         [f"rank {rank} heard hello of {1 - rank}, sum 3, all arrived, one leader" for rank in range(2)])

    def test_a_wait_survives_the_coordinators_restart(self):
        job = self.submit("wait")
        self.await_waiter(job)
        self.cluster.restart_coordinator()
        self.await_waiter(job)
        self.cluster.dpctl("store", "set", job, "later", "hello", check=0)
        self.assertEqual(self.end_of(job), ("SUCCEEDED", ["got hello"]))

    def test_every_change_counts_once_while_the_coordinator_restarts(self):
        job = self.submit("count")
        counted = lambda: int("0" + self.cluster.dpctl("store", "get", job, "n", "--timeout", "1s").stdout)  # noqa: E731
        for _ in range(2):
            before = counted()
            self.assertTrue(eventually(lambda: counted() > before))
            self.cluster.restart_coordinator()
        self.cluster.dpctl("store", "set", job, "stop", "now", check=0)
        self.assertEqual(self.end_of(job), ("SUCCEEDED", ["each counted once"]))

    def test_a_rank_is_refused_in_another_job_and_a_job_that_is_not_there(self):
        waiting = self.submit("wait")
        self.await_waiter(waiting)
        for other in (waiting, 99):
            state, lines = self.end_of(self.submit("other", other))
            self.assertEqual(state, "FAILED")
            self.assertRegex(lines[0], rf"^invalid argument: GrpcStore of job {other}, generation 1, at {self.cluster.address}: "
                             rf"rank 0 of job \d+ may not call .*: it is about job {other}; a rank may use the store of its own job")
        self.cluster.dpctl("cancel", waiting, check=0)

    def test_a_person_uses_the_store_of_a_job(self):
        job = self.submit("wait")
        self.await_waiter(job)
        self.assertEqual(self.alone("outside", job, env={"STORE_AT": self.cluster.address})[0], 0)
        self.assertEqual(self.end_of(job), ("SUCCEEDED", ["got hello from outside"]))

    def test_a_program_that_exits_without_a_farewell_ends_well(self):
        self.assertEqual(self.run_ranks(2, "leave"), ["rank 0 joined", "rank 1 joined"])

    def test_children_open_stores_before_their_parent_does(self):
        state, lines = self.end_of(self.submit("spawned"))
        self.assertEqual((state, lines[0]), ("FAILED", "children 2"))
        self.assertRegex(lines[1], "^wrong state: spawn: .*threads")

    def test_without_a_job_and_without_a_coordinator_the_error_says_so(self):
        code, said, _ = self.alone("wait")
        self.assertEqual((code, said), (1, "invalid argument: GrpcStore misses the environment variables DP_COORDINATOR, DP_JOB, "
                                           "DP_GENERATION; start the program by dpctl run, or set coordinator, job and "
                                           "generation in GrpcStoreOptions"))
        self.cluster.coordinator.kill()
        self.assert_unreachable()

    def test_a_coordinator_that_does_not_answer_is_unreachable(self):
        self.cluster.coordinator.freeze()
        self.assert_unreachable()

    def assert_unreachable(self):
        code, said, err = self.alone("outside", 1, env={"STORE_AT": self.cluster.address,
                                                        "DP_CREDENTIALS": self.cluster.dir / "coordinator/identity/admin"})
        self.assertEqual((code, err), (1, ""))
        self.assertRegex(said, f"^unreachable: GrpcStore of job 1, generation 1, at {self.cluster.address}: .*; check the "
                               "address, and that dp-coordinator runs there$")

    def test_a_wrong_directory_of_credentials_is_named_with_the_programs_options(self):
        wrong = self.dir / "no_credential"
        code, said, err = self.alone("outside", 1, env={"STORE_AT": self.cluster.address, "DP_CREDENTIALS": wrong})
        self.assertEqual((code, err), (1, ""))
        self.assertRegex(said, f"^invalid argument: GrpcStore of job 1, generation 1, at {self.cluster.address}: there is no "
                               f"credential in {wrong}: it has no file .*; log in, or name another directory with "
                               "GrpcStoreOptions::credentials or DP_CREDENTIALS$")

    def test_a_handshake_that_fails_is_explained(self):
        with Cluster() as other:
            for env, why in (({"DP_CREDENTIALS": other.dir / "coordinator/identity/admin"}, "is of another authority than that in "),
                             ({"DP_INSECURE": "1"}, "takes calls over TLS only; leave out --insecure, and unset DP_INSECURE")):
                code, said, err = self.alone("outside", 1, env={"STORE_AT": self.cluster.address, **env})
                self.assertEqual((code, err), (1, ""))
                self.assertIn(why, said)

    @unittest.skipIf(not ABSEIL, "no archives of abseil on this host")
    def test_a_program_that_has_linked_abseils_archives_is_refused(self):
        link = f"-Wl,--start-group {' '.join(map(str, ABSEIL))} -Wl,--end-group"
        program = package.build_program("archives", WITH_ARCHIVES, self.dir, self.root, link)
        self.assertIn("the program has linked abseil from the system's archives", package.run(program).stdout)

    def test_without_its_module_the_error_names_the_file(self):
        module = next((self.root / "lib").glob("libdp_distributed_grpc-*.so"))
        moved = module.rename(module.with_suffix(".moved"))
        try:
            code, said, _ = self.alone("outside", 1, env={"STORE_AT": self.cluster.address})
        finally:
            moved.rename(module)
        self.assertEqual(code, 1)
        self.assertRegex(said, "^unsupported: GrpcStore cannot be loaded: .*libdp_distributed_grpc.*; install the library's files")


if __name__ == "__main__":
    unittest.main()
