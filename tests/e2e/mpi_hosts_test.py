"""Backend mpi of the library on several hosts."""

import pathlib
import shutil
import unittest

from kit import hosts as test_hosts
from kit import mpirun, package
from kit.waiting import eventually

PROGRAM = pathlib.Path(__file__).parent / "programs/mpi_ranks.cc"
REASON = test_hosts.why_not() or ("" if shutil.which("mpirun") else "no mpirun on this host")
RANKS = 4  # two on each host


@unittest.skipIf(REASON, REASON)
class MpiHostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package.installed_program(cls, PROGRAM)

    def setUp(self):
        self.hosts = self.enterContext(test_hosts.Hosts(2))

    def run_ranks(self, *verb, options=mpirun.over("eth0")):
        """Runs the ranks on both hosts, where no process must stay."""
        try:
            return mpirun.run([*mpirun.on_hosts(self.hosts, (0, 1), RANKS // 2, self.dir, *options),
                               str(self.program), *verb], self.dir)
        finally:
            self.assertTrue(eventually(lambda: not self.hosts.processes()), self.hosts.processes())

    def test_every_operation_has_the_bits_of_one_host(self):
        code, here, err = mpirun.run([*mpirun.on_this_host(RANKS), str(self.program), "digest"], self.dir)
        self.assertEqual((code, len(here)), (0, 7 * 4 * RANKS), err)
        code, there, err = self.run_ranks("digest")
        self.assertEqual(there, here, err)
        self.assertEqual(code, 0, err)

    def test_the_ranks_make_groups_of_other_backends(self):
        code, lines, err = self.run_ranks("compare", "gloo", "hierarchical", "auto")
        self.assertEqual(lines, [f"rank {rank} of {RANKS}: same bits" for rank in range(RANKS)], err)
        self.assertEqual(code, 0, err)

    def test_without_a_word_on_interfaces_the_ranks_meet_at_an_address_of_rank_0s_host(self):
        code, lines, err = self.run_ranks("pair", options=())
        self.assertEqual((code, lines), (0, ["pair: 5 by mpi"]), err)

    def test_an_address_that_peers_cannot_reach_is_named_with_the_remedy(self):
        code, lines, err = self.run_ranks("meet", options=("-x", "DP_ADDRESS=127.0.0.1"))
        self.assertNotEqual(code, 0, err)
        self.assertTrue(any("no store at 127.0.0.1:" in line and "or set DP_ADDRESS there" in line for line in lines), lines)

    def test_a_host_with_the_address_of_another_takes_no_messages_and_says_why(self):
        code, lines, err = self.run_ranks("unsent", options=("-x", f"DP_ADDRESS={self.hosts.address(0)}"))
        self.assertEqual((code, len(lines)), (0, RANKS), err)
        self.assertIn(f"this rank cannot take messages at {self.hosts.address(0)} (bind: Cannot assign requested address); "
                      "DP_ADDRESS, if it is set, must be an address of this rank's own host", lines[2])

    def test_ranks_whose_calls_differ_all_state_how(self):
        _, lines, err = self.run_ranks("differ")
        calls = "rank 0 calls all_reduce of 4 float32, op sum, rank 3 calls all_reduce of 4 float32, op max"
        self.assertEqual(len(lines), RANKS, err)
        for rank, line in enumerate(lines):
            self.assertIn(f"mismatch: group 'default', rank {rank}: all_reduce 1: {calls}", line)

    def test_a_rank_of_the_other_host_that_aborts_is_named(self):
        code, lines, err = self.run_ranks("abort")
        self.assertNotEqual(code, 0, err)
        self.assertEqual(lines, [*(f"error: group 'default', rank {rank}: all_reduce 1: rank 3 went away; the output of that "
                                   "rank says why it ended" for rank in range(RANKS - 1)),
                                 "error: group 'default', rank 3: all_reduce 1 was aborted: gives up"], err)

    def test_mpirun_names_the_host_of_a_rank_that_is_killed_and_ends_all(self):
        code, _, err = self.run_ranks("kill")
        self.assertNotEqual(code, 0, err)
        self.assertRegex(err, r"process rank 3 .* on node host-1 exited on signal 9")


if __name__ == "__main__":
    unittest.main()
