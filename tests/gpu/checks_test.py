"""What tests/gpu/run reports of its checks, and how it exits."""

import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

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


    def test_a_check_has_no_more_time_than_all_have(self):
        now, limits = [0], []
        report = checks.Report(self.out, clock=lambda: now[0], seconds_max=100)

        def takes_90(limit):
            limits.append(limit.seconds)
            now[0] += 90

        report.check("one", 95, takes_90, others_wait=True)
        report.check("two", 95, takes_90)
        report.check("three", 60, takes_90)
        self.assertEqual(limits, [50, 10])
        self.assertEqual(report.summary(), 0)
        self.assertIn("no time was left for: three\n", self.out.getvalue())

    def test_what_failed_is_named_again_at_the_end(self):
        for name in ("one", "other"):
            self.report.check(name, 1, raising(checks.Failed("x" * 1000)))
        self.report.summary()
        *lines, failed, _ = self.out.getvalue().splitlines()
        self.assertEqual(failed, "failed: one other")
        self.assertLess(max(map(len, lines)), 300)


class LogTest(unittest.TestCase):
    def test_it_holds_what_programs_print_and_how_they_end(self):
        log = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "log"
        checks.log_to(log)
        self.addCleanup(checks.log_to, None)
        checks.run([sys.executable, "-c", "print('x'); raise SystemExit(3)"], checks.Limit(60))
        self.assertRegex(log.read_text(), r"^\$ .*python.*\nx\n-> 3\n")


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
        self.assertEqual(engine_checks.outcomes(report),
                         (["Kernels.Adds"], ["Kernels.Needs"], {"Kernels.Wrong": "1 is not 2"}))

    def test_losses_are_those_of_the_epochs(self):
        output = "epoch 1/2  loss 10.81  900 samples/s\ntest loss 3\nepoch 2/2  loss 4.2  905 samples/s\n"
        self.assertEqual(product_checks.losses(output), [10.81, 4.2])

    def test_attention_that_is_not_cudnn_s_is_a_failure_with_its_reason(self):
        product_checks.fused("event=gpu_graph_captured nodes=9\n")
        with self.assertRaisesRegex(checks.Failed, "no libnvrtc"):
            product_checks.fused("event=gpu_attention_not_fused error=\"no libnvrtc\"\n")

    def test_steps_that_any_rank_takes_without_a_graph_are_a_failure(self):
        one = "event=gpu_graph_captured graphs=2 nodes=9\n"
        product_checks.captured(2 * one, ranks=2)
        self.assertRaises(checks.Failed, product_checks.captured, one, ranks=2)
        with self.assertRaisesRegex(checks.Failed, "a reason"):
            product_checks.captured(2 * one + "event=gpu_graph_refused error=\"a reason\"\n", ranks=2)

    def test_two_ranks_whose_losses_are_not_those_of_one_are_a_failure(self):
        one = [2.3 - 0.1 * step for step in range(12)]
        product_checks.trained_as_one([1.0005 * loss for loss in one], one)
        for other in ([], one[:9], one[:11], [one[0], 0.99 * one[1], *one[2:]], [float("nan")] * 12):
            with self.subTest(other=other):
                self.assertRaises(checks.Failed, product_checks.trained_as_one, other, one)

    def test_two_runs_with_other_bits_are_a_failure(self):
        product_checks.same_bits("aa", "aa")
        self.assertRaises(checks.Failed, product_checks.same_bits, "aa", "ab")


# Stands in for a GoogleTest program: takes its tests one by one, each as TESTS says.
PROGRAM = """
import json, os, sys
report, given = (word.split('=', 1)[1] for word in sys.argv[1:])
tests, told = json.loads(os.environ['TESTS']), []
for name, does in tests.items():
    if (name in given[1:].split(':')) if given[0] == '-' else (name != given):
        continue
    print('[ RUN      ] S.' + name.split('.')[1], flush=True)
    if does == 'breaks':
        os.abort()
    fails = does == 'fails' or does == 'fails behind' and len(told) > 0
    if does == 'skipped':
        print('a_test.cc:40: Skipped\\nno CUDA device: a reason\\n')
    told.append({'name': name.split('.')[1], 'result': 'SKIPPED' if does == 'skipped' else 'COMPLETED',
                 **({'failures': [{'failure': 'the words of ' + name}]} if fails else {})})
open(report.removeprefix('json:'), 'w').write(json.dumps({'testsuites': [{'name': 'S', 'testsuite': told}]}))
sys.exit(any('failures' in test for test in told))
"""


class GoogleTestTest(unittest.TestCase):
    def run_tests(self, **tests):
        told = json.dumps({f"S.{name}": does for name, does in tests.items()})
        with mock.patch.object(gpu_host, "environment", lambda: {**os.environ, "TESTS": told}):
            return engine_checks.googletest([sys.executable, "-c", PROGRAM], checks.Limit(60))

    def failure(self, **tests):
        with self.assertRaises(checks.Failed) as failed:
            self.run_tests(**tests)
        return str(failed.exception)

    def test_how_many_passed_is_told(self):
        self.assertEqual(str(self.run_tests(A="passes", B="passes")), "2 tests")

    def test_the_first_failure_is_told_in_its_words(self):
        said = self.failure(A="passes", B="fails")
        self.assertIn("1 wrong, 1 right; first S.B", said)
        self.assertIn("the words of S.B", said)

    def test_those_that_failed_behind_another_are_tried_alone(self):
        said = self.failure(A="fails", B="fails behind", C="fails")
        self.assertIn("3 wrong", said)
        self.assertIn("of 2 more, alone fail: S.C\n", said)

    def test_one_that_ends_the_program_does_not_end_the_others(self):
        said = self.failure(A="passes", B="breaks", C="passes")
        self.assertIn("1 wrong, 2 right; first S.B", said)
        self.assertIn("ended with -6", said)

    def test_where_none_runs_the_reason_is_told_once(self):
        said = self.failure(A="skipped", B="skipped")
        self.assertEqual(said, "no test ran, 2 were skipped\nno CUDA device: a reason")

    def test_a_program_that_does_not_begin_fails_with_its_words(self):
        with self.assertRaisesRegex(checks.Failed, "exit code 127\nnot found"):
            engine_checks.googletest(["/bin/sh", "-c", "echo not found; exit 127"], checks.Limit(60))


class SanitizerTest(unittest.TestCase):
    def test_memcheck_counts_no_call_that_fails_with_an_answer(self):
        command = engine_checks.sanitizer_command("compute-sanitizer", "memcheck", "the_test")
        self.assertEqual(command[command.index("--report-api-errors") + 1], "no")
        self.assertIn("CudaTest.MemoryThatIsNotThere*", engine_checks.left_out("memcheck"))
        self.assertNotIn("--report-api-errors", engine_checks.sanitizer_command("compute-sanitizer", "racecheck", "t"))

    def test_what_takes_too_long_on_the_host_is_no_case_for_a_sanitizer(self):
        build = pathlib.Path(__file__).resolve().parents[2] / "worker/engine/device/cuda/CMakeLists.txt"
        too_long = re.search(r"set\(too_long ([^)]*)\)", build.read_text()).group(1).split()
        for tool in ("memcheck", "racecheck"):
            self.assertLessEqual(set(too_long), set(engine_checks.left_out(tool)))


class TarballTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "dist").mkdir()

    def pack(self, ending, words):
        program = self.folder / "dpctl"
        program.write_text(words)
        program.chmod(0o755)
        with tarfile.open(self.folder / f"dist/dp-1-linux-x86_64.tar.{ending}", f"w:{ending}") as tar:
            tar.add(program, "dp-1/bin/dpctl")

    def test_the_newest_is_taken_however_it_is_packed(self):
        for number, ending in enumerate(("xz", "gz", "xz")):
            self.pack(ending, f"{number}")
            os.utime(self.folder / f"dist/dp-1-linux-x86_64.tar.{ending}", (number, number))
            with mock.patch.object(under_test, "TOP", self.folder):
                tarball = under_test.newest_tarball()
            programs = under_test.unpacked(tarball, self.enterContext(tempfile.TemporaryDirectory()))
            self.assertEqual(programs.program("dpctl").read_text(), f"{number}")


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
        for name in ("cuda_nvrtc", "cu13", "cudnn", "nothing"):
            (self.folder / "nvidia" / name / "lib").mkdir(parents=True)
        (self.folder / "nvidia/cu13/lib/libcublasLt.so.13").touch()
        (self.folder / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12").touch()
        (self.folder / "nvidia/cudnn/lib/libcudnn.so.9").touch()
        found = gpu_host.library_dirs([str(self.folder)])
        self.assertEqual([path.parent.name for path in found if self.folder in path.parents],
                         ["cu13", "cuda_nvrtc", "cudnn"])


class DriverTest(unittest.TestCase):
    def test_a_driver_that_lies_beside_the_toolkits_is_found(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(gpu_host, "DRIVER", "libof-nobody.so"))
        self.enterContext(mock.patch.object(gpu_host, "library_dirs", lambda: [folder]))
        self.assertRaisesRegex(gpu_host.NoGpu, "no NVIDIA driver", gpu_host.load_driver)
        loaded = pathlib.Path("/proc/self/maps").read_text().splitlines()
        (folder / "libof-nobody.so").symlink_to(next(line.split()[-1] for line in loaded if "/libc.so" in line))
        self.assertTrue(gpu_host.load_driver().getpid)


class WithoutGpuTest(unittest.TestCase):
    """On a host with a GPU the checks themselves would run, which is no unit test."""

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
