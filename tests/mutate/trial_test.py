"""Mutants of a small project, from its build graph to the verdict, and the limits of a test
program."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

import program
from graph import Graph
from mutations import mutations
from trial import Results, Trial, Unusable
from workshop import Workshop

PROJECT = {
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.25)
        project(small LANGUAGES CXX)
        add_library(counts STATIC counts.cc)
        add_library(words STATIC words.cc)
        add_executable(dp-worker main.cc)
        target_link_libraries(dp-worker counts)
        add_executable(counts_test counts_test.cc)
        target_link_libraries(counts_test counts)
        add_executable(words_test words_test.cc)
        target_link_libraries(words_test words)
        add_dependencies(words_test dp-worker)
        set_target_properties(dp-worker PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
        set_target_properties(counts_test words_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        """,
    "counts.cc": """
        int Down(int count) {
          int steps = 0;
          while (count > 0) {
            --count;
            ++steps;
          }
          if (steps < 0) return -1;
          return steps;
        }
        """,
    "words.cc": "int Words() { return 2; }\n",
    "main.cc": "int Down(int);\nint main() { return Down(1) - 1; }\n",
    "counts_test.cc": "int Down(int);\nint main() { return Down(2) == 2 ? 0 : 1; }\n",
    "words_test.cc": "int Words();\nint main() { return Words() == 2 ? 0 : 1; }\n",
}


class SmallProject(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.top = folder / "top"
        cls.top.mkdir()
        for name, text in PROJECT.items():
            (cls.top / name).write_text(textwrap.dedent(text))
        subprocess.run(["git", "init", "-q", cls.top], check=True)
        cls.workshop = Workshop(cls.top, folder / "work", jobs=1)
        cls.graph = cls.workshop.prepare()
        cls.trial = Trial(cls.workshop, cls.graph)

    def mutant(self, operator, line):
        [found] = [each for each in mutations("counts.cc", self.workshop.original("counts.cc"))
                   if each.operator == operator and each.before.strip() == line]
        return found


class GraphTest(SmallProject):
    def test_test_programs_are_those_that_hold_the_source_or_run_what_does(self):
        self.assertEqual(self.graph.test_programs("words.cc"), ["tests/words_test"])
        self.assertEqual(self.graph.test_programs("counts.cc"), ["tests/counts_test", "tests/words_test"])

    def test_production_is_what_a_program_holds(self):
        self.assertTrue(self.graph.is_production("counts.cc"))
        self.assertFalse(self.graph.is_production("words.cc"))

    def test_the_nearest_test_program_comes_first(self):
        text = "\n".join([
            "build far/CMakeFiles/a_test.dir/t.cc.o: CXX /top/far/t.cc || cmake_object_order_depends_target_near",
            "build near/CMakeFiles/z_test.dir/t.cc.o: CXX /top/near/t.cc",
            "build near/CMakeFiles/near.dir/n.cc.o: CXX /top/near/n.cc",
            "build near/libnear.a: AR near/CMakeFiles/near.dir/n.cc.o",
            "build tests/a_test: LINK far/CMakeFiles/a_test.dir/t.cc.o | near/libnear.a",
            "build tests/z_test: LINK near/CMakeFiles/z_test.dir/t.cc.o | $",
            "    near/libnear.a", ""])
        self.assertEqual(Graph(text, "/top").test_programs("near/n.cc"), ["tests/z_test", "tests/a_test"])


class TrialTest(SmallProject):
    def test_a_mutant_that_a_test_notices_is_caught(self):
        entry = self.trial.judge(self.mutant("drop-update", "++steps;"))
        self.assertEqual((entry["outcome"], entry["by"], entry["why"]), ("caught", "counts_test", "ended with 1"))
        self.assertEqual((self.workshop.tree / "counts.cc").read_text(), self.workshop.original("counts.cc"))

    def test_one_that_none_notices_survives_and_is_shown(self):
        entry = self.trial.judge(self.mutant("drop-guard", "if (steps < 0) return -1;"))
        self.assertEqual(entry["outcome"], "survived")
        self.assertEqual(entry["why"], "passed: counts_test, words_test")
        self.assertIn("-  if (steps < 0) return -1;\n+  ;", entry["diff"])

    def test_one_that_never_ends_is_caught(self):
        mutant = self.mutant("drop-update", "--count;")
        self.enterContext(unittest.mock.patch("trial.PROGRAM_WITHIN_S", 1))
        entry = self.trial.judge(mutant)
        self.assertEqual((entry["outcome"], entry["why"]), ("caught", "out of time"))

    def test_one_that_does_not_compile_gives_no_verdict(self):
        mutant = self.mutant("drop-update", "++steps;")
        broken = type(mutant)(mutant.path, mutant.line, "broken", mutant.before, "  no such;", "broken")
        self.assertEqual(self.trial.judge(broken)["outcome"], "not-compiled")

    def test_a_test_that_fails_without_a_mutant_proves_nothing(self):
        test = self.top / "counts_test.cc"
        before = test.read_text()
        self.addCleanup(self.workshop.prepare)
        self.addCleanup(test.write_text, before)
        test.write_text("int main() { return 1; }\n")
        trial = Trial(self.workshop, self.workshop.prepare())
        with self.assertRaisesRegex(Unusable, "counts_test fails without a mutant: ended with 1"):
            trial.judge(self.mutant("drop-update", "++steps;"))

    def test_the_copy_follows_the_tree_and_leaves_alone_what_is_the_same(self):
        unchanged = (self.workshop.tree / "words.cc").stat().st_mtime_ns
        extra = self.top / "extra.cc"
        extra.write_text("")
        before = self.workshop.digest()
        self.workshop.prepare()
        self.assertTrue((self.workshop.tree / "extra.cc").exists())
        self.assertNotEqual(self.workshop.digest(), before)
        extra.unlink()
        self.workshop.prepare()
        self.assertFalse((self.workshop.tree / "extra.cc").exists())
        self.assertEqual((self.workshop.tree / "words.cc").stat().st_mtime_ns, unchanged)


class ResultsTest(unittest.TestCase):
    def setUp(self):
        self.path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "results.jsonl"
        Results(self.path, "tree").add({"id": "a", "outcome": "caught"})
        Results(self.path, "tree").add({"id": "b", "outcome": "survived"})

    def test_a_run_goes_on_where_one_before_it_was_stopped(self):
        self.assertEqual(Results(self.path, "tree").find("a")["outcome"], "caught")
        self.assertEqual(Results(self.path, "tree").find("b")["outcome"], "survived")
        self.assertIsNone(Results(self.path, "tree").find("c"))

    def test_another_tree_has_results_of_its_own(self):
        self.assertIsNone(Results(self.path, "other").find("a"))
        self.assertIsNone(Results(self.path, "tree", again=True).find("a"))

    def test_what_was_caught_in_another_tree_can_be_kept(self):
        kept = Results(self.path, "other", keep_caught=True)
        self.assertEqual(kept.find("a")["outcome"], "caught")
        self.assertIsNone(kept.find("b"))


class ProgramTest(unittest.TestCase):
    def run_script(self, text, within_s=60):
        """Runs the script in another process, so that its orphans do not become this process's
        children."""
        script = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "fake_test"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        code = ("import program, sys; program.adopt_orphans(); ended = program.run(sys.argv[1], [], float(sys.argv[2])); "
                "print(ended.passed, ended.why)")
        return subprocess.run([sys.executable, "-B", "-c", code, script, str(within_s)], check=True, capture_output=True,
                              text=True, cwd=pathlib.Path(program.__file__).parent).stdout.strip()

    def test_the_first_test_that_failed_is_named(self):
        self.assertEqual(self.run_script("echo '[  FAILED  ] JobTest.Ends (3 ms)'; echo '[  FAILED  ] JobTest.X'; exit 1"),
                         "False JobTest.Ends")
        self.assertEqual(self.run_script("kill -ABRT $$"), "False ended with -6")
        self.assertEqual(self.run_script("exit 0"), "True passed")

    def test_one_that_stands_still_is_ended_and_its_test_named(self):
        self.assertEqual(self.run_script("echo '[ RUN      ] JobTest.Waits'; exec sleep 1000", within_s=1),
                         "False out of time in JobTest.Waits")

    def test_what_it_leaves_behind_is_ended_also_in_a_session_of_its_own(self):
        pids = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "pids"
        self.run_script(f"setsid sh -c 'echo $$ > {pids}; exec sleep 1000' & while [ ! -s {pids} ]; do :; done; exit 0")
        self.assertFalse(os.path.exists(f"/proc/{int(pids.read_text())}"))

    def test_its_memory_is_bounded(self):
        eat = f'exec {sys.executable} -c "bytearray({program.MEMORY_MAX} + (1 << 20))"'
        self.assertEqual(self.run_script(eat), "False ended with 1")


if __name__ == "__main__":
    unittest.main()
