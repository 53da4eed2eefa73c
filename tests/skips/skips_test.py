"""Tests how the report reads ctest's results, and when a skip is an error."""

import contextlib
import io
import os
import pathlib
import subprocess
import tempfile
import unittest

import skips

UNITTEST = """\
test_a (__main__.A.test_a) ... skipped 'needs root'
test_b (__main__.A.test_b)
What it is about. ... a line of a program
skipped "it's so"
test_c (__main__.A.test_c) ... ok
setUpClass (__main__.B) ... skipped 'needs root'
"""
GTEST = """\
[ RUN      ] A.B
/src/a_test.cc:25: Skipped
no cgroup can be made here

[  SKIPPED ] A.B (0 ms)
"""
GTEST_FAILED = """\
[ RUN      ] A.B
[       OK ] A.B (1 ms)
[ RUN      ] A.B2/0
a line of a program
/src/a_test.cc:25: Failure
Expected: true
[  FAILED  ] A.B2/0, where GetParam() = 1 (2 ms)
[ RUN      ] A.C
[       OK ] A.C (1 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] A.B2/0, where GetParam() = 1
"""
UNITTEST_FAILED = """\
test_a (__main__.A.test_a) ... FAIL

======================================================================
FAIL: test_a (__main__.A.test_a)
----------------------------------------------------------------------
Traceback (most recent call last):
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 1 test in 0.001s
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project(tests NONE)
enable_testing()
foreach(name cases whole passes)
  add_test(NAME ${name} COMMAND sh ${CMAKE_SOURCE_DIR}/${name}.sh)
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
"""


class SkipsTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.addCleanup(os.environ.pop, "DP_REQUIRE_ALL", None)

    def results(self, *cases):
        """Writes a results file with these (name, output). After a name, "!" marks a skipped
        program and "?" one that failed."""
        tags = []
        for name, output in cases:
            skipped = "<skipped/>" if name.endswith("!") else ""
            output = output.replace("<", "&lt;")
            status = "fail" if name.endswith("?") else "run"
            tags.append(f'<testcase name="{name.rstrip("!?")}" status="{status}">{skipped}'
                        f'<system-out>{output}</system-out></testcase>')
        path = self.dir / "results.xml"
        path.write_text(f"<testsuite>{''.join(tags)}</testsuite>")
        return path

    def report(self, *cases, require_all=False):
        """(exit code, lines)"""
        os.environ["DP_REQUIRE_ALL"] = "1" if require_all else ""
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = skips.report(self.results(*cases))
        return code, told.getvalue().splitlines()

    def test_cases_of_both_kinds_are_counted_by_reason(self):
        code, lines = self.report(("python", UNITTEST), ("cpp", GTEST), ("more", UNITTEST))
        self.assertEqual(code, 0)
        self.assertEqual(lines, ["SKIPPED 2: it's so (more, python)",
                                 "SKIPPED 4: needs root (more, python)",
                                 "SKIPPED 1: no cgroup can be made here (cpp)"])

    def test_a_program_that_is_skipped_as_a_whole_says_why_last(self):
        self.assertEqual(self.report(("whole!", "looking\nno torch here\n"), ("silent!", "")),
                         (0, ["SKIPPED 1: no reason given (silent)", "SKIPPED 1: no torch here (whole)"]))

    def test_where_nothing_was_skipped_nothing_is_said(self):
        self.assertEqual(self.report(("all", "test_a ... ok\n"), require_all=True), (0, []))

    def test_each_failed_case_is_told_with_its_first_assertion(self):
        self.assertEqual(self.report(("cpp?", GTEST_FAILED), ("passed", GTEST_FAILED))[1],
                         ["FAILED cpp A.B2/0", "    /src/a_test.cc:25: Failure", "    Expected: true"])
        self.assertEqual(self.report(("python?", UNITTEST_FAILED))[1],
                         ["FAILED python test_a (__main__.A.test_a)",
                          "    Traceback (most recent call last):", "    AssertionError: 1 != 2"])

    def test_a_line_that_looks_like_a_failed_case_is_none(self):
        self.assertEqual(self.report(("python?", "ERROR: pip could not\n\n" + UNITTEST_FAILED))[1][0],
                         "FAILED python test_a (__main__.A.test_a)")

    def test_a_case_in_which_the_program_ended_is_told_too(self):
        self.assertEqual(self.report(("cpp?", GTEST_FAILED + "[ RUN      ] A.D\nabort: x\n"))[1][-2:],
                         ["FAILED cpp A.D", "    abort: x"])

    def test_of_a_program_that_names_no_case_the_last_lines_are_told(self):
        self.assertEqual(self.report(("crash?", "one\ntwo\n"))[1], ["FAILED crash", "    one", "    two"])

    def test_where_all_is_required_a_skip_is_an_error(self):
        code, lines = self.report(("cpp", GTEST), require_all=True)
        self.assertEqual((code, len(lines)), (1, 2))

    def test_a_gpu_is_never_required(self):
        no_gpu = GTEST.replace("no cgroup can be made here", "no CUDA device")
        self.assertEqual(self.report(("cuda", no_gpu), require_all=True)[0], 0)

    def test_what_ctest_writes_is_understood(self):
        (self.dir / "CMakeLists.txt").write_text(CMAKE)
        (self.dir / "cases.sh").write_text(f"cat << 'end'\n{UNITTEST * 100}end\n")
        (self.dir / "whole.sh").write_text("echo no torch here; exit 77\n")
        (self.dir / "passes.sh").write_text("echo fine\n")
        subprocess.run(["cmake", "-S", self.dir, "-B", self.dir / "b"], check=True, capture_output=True)
        done = subprocess.run([skips.__file__, self.dir / "b"], check=True, capture_output=True, text=True)
        self.assertEqual(done.stdout.splitlines()[-3:], ["SKIPPED 100: it's so (cases)",
                                                         "SKIPPED 200: needs root (cases)",
                                                         "SKIPPED 1: no torch here (whole)"])

    def test_a_test_that_fails_is_still_one(self):
        (self.dir / "CMakeLists.txt").write_text(CMAKE)
        for name in ("cases", "whole", "passes"):
            (self.dir / f"{name}.sh").write_text("exit 1\n")
        subprocess.run(["cmake", "-S", self.dir, "-B", self.dir / "b"], check=True, capture_output=True)
        self.assertNotEqual(subprocess.run([skips.__file__, self.dir / "b"], capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
