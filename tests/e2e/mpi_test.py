"""Backend mpi of the library: processes that mpirun starts."""

import pathlib
import shutil
import unittest

from kit import mpirun, package

PROGRAM = pathlib.Path(__file__).parent / "programs/mpi_ranks.cc"


@unittest.skipIf(shutil.which("mpirun") is None, "no mpirun on this host")
class MpiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        package.installed_program(cls, PROGRAM)

    def mpirun(self, ranks, *verb, **transports):
        return mpirun.run([*mpirun.on_this_host(ranks, **transports), str(self.program), *verb], self.dir)

    def test_every_type_and_operation_has_the_bits_of_the_other_backends(self):
        for ranks in (2, 3, 4):
            code, lines, err = self.mpirun(ranks, "compare", "shm", "gloo")
            self.assertEqual(lines, [f"rank {rank} of {ranks}: same bits" for rank in range(ranks)], err)
            self.assertEqual(code, 0, err)

    def test_data_goes_over_tcp_too(self):
        code, lines, err = self.mpirun(2, "compare", "shm", "gloo", transports="self,tcp")
        self.assertEqual(lines, [f"rank {rank} of 2: same bits" for rank in range(2)], err)
        self.assertEqual(code, 0, err)

    def test_some_ranks_make_a_group_of_their_own_also_when_they_join_again(self):
        for verb in ("pair", "again"):
            code, lines, err = self.mpirun(3, verb)
            self.assertEqual((code, lines), (0, ["pair: 3 by mpi"]), err)

    def test_ranks_send_messages(self):
        code, lines, err = self.mpirun(3, "send")
        self.assertEqual((code, lines), (0, ["rank 0 has 2", "rank 1 has 0", "rank 2 has 1"]), err)

    def test_ranks_whose_calls_differ_all_state_how(self):
        _, lines, err = self.mpirun(3, "differ")
        calls = "rank 0 calls all_reduce of 4 float32, op sum, rank 2 calls all_reduce of 4 float32, op max"
        self.assertEqual(len(lines), 3, err)
        for rank, line in enumerate(lines):
            self.assertIn(f"mismatch: group 'default', rank {rank}: all_reduce 1: {calls}", line)

    def test_a_rank_that_leaves_midway_is_named(self):
        code, lines, _ = self.mpirun(3, "leave")
        self.assertNotEqual(code, 0)
        self.assertEqual(lines, [f"error: group 'default', rank {rank}: all_reduce 1: rank 2 went away; the output of that "
                                 "rank says why it ended" for rank in range(2)])

    def test_a_rank_that_is_stopped_is_named_at_the_deadline(self):
        code, lines, _ = self.mpirun(2, "stop")
        self.assertNotEqual(code, 0)
        # mpirun lets the stopped rank go on before it ends it, so that one may say something too.
        self.assertTrue(lines[0].startswith("error: group 'default', rank 0: all_reduce 1: rank 1 did not arrive within 2s"),
                        lines)

    def test_without_mpirun_the_error_says_how_to_start(self):
        done = package.run(self.program, "pair")
        self.assertEqual(done.returncode, 1)
        self.assertIn("backend mpi: mpirun did not start this process; start the program by 'mpirun -n RANKS PROGRAM'",
                      done.stdout)


if __name__ == "__main__":
    unittest.main()
