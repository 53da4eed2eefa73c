"""What tests/gpu/run and tests/gpu/bench reject before they do anything, on any host."""

import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

import programs as under_test
import usage

HERE = pathlib.Path(__file__).resolve().parent


class UsageTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def expect_refused(self, command, *arguments, says):
        done = subprocess.run([HERE / command, *arguments], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (usage.BAD_USAGE, ""), done.stderr)
        last = done.stderr.splitlines()[-1]
        for each in says:
            self.assertIn(each, last)
        self.assertNotIn("Traceback", done.stderr)

    def pack(self, *names):
        path = self.folder / "some.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            for name in names:
                tar.add(__file__, name)
        return path

    def test_a_check_that_there_is_not_is_named_beside_those_that_there_are(self):
        for names in (["nonsense"], ["self_check", "nonsense"], ["nonsense", "--rehearse"]):
            with self.subTest(names=names):
                self.expect_refused("run", *names, says=["'nonsense'", "group_killed_rank", "product_cnn"])
        self.expect_refused("run", "", says=["''"])

    def test_a_row_that_there_is_not_is_named_beside_those_that_there_are(self):
        for more in ([], ["--rehearse"]):
            self.expect_refused("bench", "cnn", "wrong", *more, says=["'wrong'", "cnn_1024_bf16", "first_step_warm"])

    def test_numbers_that_are_none_or_out_of_range_are_refused(self):
        for command in ("run", "bench"):
            for value in ("-1", "nan", "inf", "soon"):
                self.expect_refused(command, f"--minutes={value}", says=["--minutes", f"'{value}'", "leave it out"])
        for value in ("0", "-1", "many"):
            self.expect_refused("bench", "--rehearse", f"--rounds={value}", says=["--rounds", f"'{value}'", "1 or more"])

    def test_paths_that_lead_nowhere_are_refused(self):
        nowhere = str(self.folder / "nowhere")
        for command in ("run", "bench"):
            self.expect_refused(command, "--build", nowhere, says=["--build", nowhere, "neither bin nor tests"])
            self.expect_refused(command, "--build", self.folder, says=["neither bin nor tests"])
            self.expect_refused(command, "--python", nowhere, says=["--python", nowhere, "interpreter"])
        self.expect_refused("run", "--log", f"{nowhere}/log", says=["--log", f"{nowhere}/log", "No such file"])

    def test_a_tarball_that_is_none_is_refused(self):
        (self.folder / "empty").touch()
        (self.folder / "words").write_text("no archive\n" * 100)
        for name, why in (("nowhere", "not there"), (".", "a folder"), ("empty", "cannot be read"),
                          ("words", "cannot be read")):
            for command in ("run", "bench"):
                path = f"{self.folder}/{name}"
                self.expect_refused(command, "--tarball", path, says=["--tarball", path, why, "make dist"])
        self.expect_refused("run", "--tarball", self.pack(), says=["nothing in it"])

    def test_a_tarball_of_another_shape_is_refused_as_it_is_unpacked(self):
        path = self.pack("one/file", "other/file")
        self.expect_refused("run", "--rehearse", "--tarball", path, says=[str(path), "one and other"])

    def test_a_tarball_that_is_cut_short_is_refused_as_it_is_unpacked(self):
        path = self.pack("one/file", "one/more")
        path.write_bytes(path.read_bytes()[:-300])
        self.expect_refused("run", "--rehearse", "--tarball", path, says=[str(path), "cannot be unpacked"])

    def test_without_a_tarball_the_ways_around_it_are_told(self):
        with mock.patch.object(under_test, "TOP", self.folder), mock.patch.object(sys, "stderr"):
            with self.assertRaises(usage.BadUsage) as refused:
                under_test.chosen(mock.Mock(engine_only=False, build=None, tarball=None), self.folder)
        self.assertEqual(refused.exception.code, usage.BAD_USAGE)


if __name__ == "__main__":
    unittest.main()
