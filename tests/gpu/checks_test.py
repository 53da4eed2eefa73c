"""What tests/gpu/run says of its checks, and what it ends with."""

import io
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import checks
import cuda_fit
import engine_checks
import gpu_host
import product_checks
import programs as under_test
import sample_data


def raising(error):
    def body(_limit):
        raise error
    return body


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.out = io.StringIO()
        self.report = checks.Report(self.out, clock=lambda: 0)

    def test_each_check_gets_a_line_with_its_reason(self):
        self.report.check("first", 1, lambda limit: "12 tests")
        self.report.check("second", 1, raising(checks.Failed("rank 1 ended with 3\nits last line")))
        self.report.check("third", 1, raising(checks.Skipped("no such tool")))
        first, second, told, third = self.out.getvalue().splitlines()
        self.assertRegex(first, r"^PASS  first +0\.0 s  12 tests$")
        self.assertRegex(second, r"^FAIL  second +0\.0 s  rank 1 ended with 3$")
        self.assertIn("its last line", told)
        self.assertRegex(third, r"^SKIP  third +0\.0 s  no such tool$")

    def test_a_failure_decides_the_exit_code(self):
        self.report.check("one", 1, lambda limit: "")
        self.report.check("other", 1, raising(ValueError("a bug of the check's")))
        self.assertEqual(self.report.summary(), 1)

    def test_what_passed_decides_where_nothing_failed(self):
        self.report.check("one", 1, lambda limit: "")
        self.report.skip("other", "no such tool")
        self.assertEqual(self.report.summary(), 0)

    def test_a_run_that_checked_nothing_says_so(self):
        self.report.skip("one", "no driver")
        self.assertEqual(self.report.summary(), checks.CANNOT_RUN)
        self.assertIn("0 passed, 0 failed, 1 skipped", self.out.getvalue())


class WantedTest(unittest.TestCase):
    NAMES = ("group_1", "group_2", "product_gpt2", "product_gpt2_bf16")

    def test_a_check_is_chosen_by_its_name_or_else_by_the_beginning(self):
        self.assertEqual(checks.wanted(self.NAMES, ["product_gpt2"]), {"product_gpt2"})
        self.assertEqual(checks.wanted(self.NAMES, ["group", "product_gpt2_bf16"]),
                         {"group_1", "group_2", "product_gpt2_bf16"})
        self.assertEqual(checks.wanted(self.NAMES, []), set(self.NAMES))


class LimitTest(unittest.TestCase):
    def test_a_check_that_takes_too_long_fails(self):
        now = [0]
        limit = checks.Limit(10, clock=lambda: now[0])
        now[0] = 4
        self.assertEqual(limit.left(), 6)
        now[0] = 10
        self.assertRaisesRegex(checks.Failed, "10 s", limit.left)

    def test_a_program_that_takes_too_long_is_ended(self):
        hardly_any = checks.Limit(1e-3, clock=lambda: 0)
        with self.assertRaisesRegex(checks.Failed, "was not done"):
            checks.run([sys.executable, "-c", "import signal; signal.pause()"], hardly_any)

    def test_exit_code_and_output_of_a_program_come_back(self):
        code, output = checks.run([sys.executable, "-c", "print('x'); raise SystemExit(3)"], checks.Limit(60))
        self.assertEqual((code, output), (3, "x\n"))


class ReadingTest(unittest.TestCase):
    def test_outcomes_of_googletest_are_told_apart(self):
        report = {"testsuites": [{"name": "Kernels", "testsuite": [
            {"name": "Adds", "result": "COMPLETED"}, {"name": "Needs", "result": "SKIPPED"},
            {"name": "Wrong", "result": "COMPLETED", "failures": [{"failure": "1 is not 2"}]},
            {"name": "Filtered", "result": "SUPPRESSED"}]}]}
        self.assertEqual(engine_checks.outcomes(report), (["Kernels.Adds"], ["Kernels.Needs"], ["Kernels.Wrong"]))

    def test_losses_are_those_of_the_epochs(self):
        output = "epoch 1/2  loss 10.81  900 samples/s\ntest loss 3\nepoch 2/2  loss 4.2  905 samples/s\n"
        self.assertEqual(product_checks.losses(output), [10.81, 4.2])

    def test_two_runs_with_other_bits_are_a_failure(self):
        product_checks.same_bits("aa", "aa")
        self.assertRaises(checks.Failed, product_checks.same_bits, "aa", "ab")


class SanitizerTest(unittest.TestCase):
    def cases(self, tool):
        *_, given = engine_checks.sanitizer_command("compute-sanitizer", tool, "the_test")
        self.assertTrue(given.startswith("--gtest_filter=-"))
        return given.removeprefix("--gtest_filter=-").split(":")

    def test_memcheck_counts_no_call_that_fails_with_an_answer(self):
        command = engine_checks.sanitizer_command("compute-sanitizer", "memcheck", "the_test")
        self.assertEqual(command[command.index("--report-api-errors") + 1], "no")
        self.assertIn("CudaTest.MemoryThatIsNotThere*", self.cases("memcheck"))
        self.assertNotIn("--report-api-errors", engine_checks.sanitizer_command("compute-sanitizer", "racecheck", "t"))

    def test_what_takes_minutes_on_the_host_is_no_case_for_a_sanitizer(self):
        build = pathlib.Path(__file__).resolve().parents[2] / "worker/engine/device/cuda/CMakeLists.txt"
        minutes_long = re.search(r"set\(minutes_long ([^)]*)\)", build.read_text()).group(1).split()
        for tool in ("memcheck", "racecheck"):
            self.assertLessEqual(set(minutes_long), set(self.cases(tool)))


class TokensTest(unittest.TestCase):
    def test_a_file_of_tokens_has_llm_c_s_header(self):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "tokens.bin"
        sample_data.write_tokens(path, 100, vocabulary=50257, kinds=4)
        content = path.read_bytes()
        self.assertEqual(len(content), 1024 + 200)
        self.assertEqual(int.from_bytes(content[:4], "little"), 20240520)
        self.assertEqual(int.from_bytes(content[8:12], "little"), 100)
        self.assertEqual(len({content[at:at + 2] for at in range(1024, len(content), 2)}), 4)


class CudaFitTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.gpu = gpu_host.Gpu("a card", 1, (9, 0), cuda=(12, 4), shared=True)

    def linked_to(self, library):
        (self.folder / "program").write_bytes(b"\x7fELF\0libz.so.1\0" + library + b"\0libm.so.6\0")
        return cuda_fit.linked_major(self.folder / "program")

    def test_a_program_tells_which_cuda_it_is_linked_to(self):
        self.assertEqual(self.linked_to(b"libcublasLt.so.13"), 13)
        self.assertIsNone(self.linked_to(b"libdnnl.so.2"))

    def test_a_driver_of_an_earlier_cuda_is_named_with_the_one_that_is_needed(self):
        why = cuda_fit.why_driver_is_too_old(13, self.gpu)
        for word in ("CUDA 13", "CUDA 12.4", "R580"):
            self.assertIn(word, why)
        self.assertIsNone(cuda_fit.why_driver_is_too_old(12, self.gpu))

    def test_what_the_loader_misses_is_told(self):
        script = self.folder / "unloadable"
        script.write_text("#!/bin/sh\necho error while loading shared libraries: libcublasLt.so.13 >&2; exit 127\n")
        script.chmod(0o755)
        self.assertIn("libcublasLt.so.13", cuda_fit.why_not_loaded([script], 13))
        self.assertIsNone(cuda_fit.why_not_loaded(["true"], 13))

    def test_a_host_whose_driver_is_too_old_is_refused_for_programs_that_are_linked_to_cuda(self):
        programs = under_test.Programs(self.folder, "a build")
        self.assertIsNone(cuda_fit.why_not(self.gpu, programs))
        programs.bin.mkdir()
        (programs.bin / "dp-trainer-cuda").write_bytes(b"\0libcublasLt.so.13\0")
        self.assertIn("R580", cuda_fit.why_not(self.gpu, programs))

    def test_later_toolkits_are_searched_before_earlier_ones(self):
        for name in ("cuda-9.2", "cuda-13.0", "cuda-12.8"):
            (self.folder / name).mkdir()
        tops = gpu_host.cuda_tops([f"{self.folder}/cuda-*"], {"CUDA_HOME": "/mine"})
        self.assertEqual([top.name for top in tops], ["mine", "cuda-13.0", "cuda-12.8", "cuda-9.2"])

    def test_folders_of_packages_with_a_library_of_cuda_are_searched(self):
        for name in ("cu13", "cudnn", "nothing"):
            (self.folder / "nvidia" / name / "lib").mkdir(parents=True)
        (self.folder / "nvidia/cu13/lib/libcublasLt.so.13").touch()
        (self.folder / "nvidia/cudnn/lib/libcudnn.so.9").touch()
        found = gpu_host.library_dirs([str(self.folder)])
        self.assertEqual([path.parent.name for path in found if self.folder in path.parents], ["cu13", "cudnn"])


class WithoutGpuTest(unittest.TestCase):
    """On a host with a driver the checks themselves run, which is no unit test."""

    def test_every_check_is_skipped_with_what_is_missing(self):
        try:
            gpu_host.first_gpu()
        except gpu_host.NoGpu:
            pass
        else:
            self.skipTest("this host has a GPU")
        run = pathlib.Path(__file__).with_name("run")
        done = subprocess.run([run], capture_output=True, text=True)
        self.assertEqual(done.returncode, checks.CANNOT_RUN, done.stderr)
        first, *lines, summary = done.stdout.splitlines()
        self.assertIn("no GPU that can be used", first)
        self.assertTrue(all(line.startswith("SKIP") for line in lines), done.stdout)
        self.assertIn("0 passed, 0 failed", summary)


if __name__ == "__main__":
    unittest.main()
