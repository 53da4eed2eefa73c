"""How a host's GPU is found if its driver is missing or bad. The drivers are stand-ins, compiled here."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import checks
import gpu_host

HERE = pathlib.Path(__file__).resolve().parent
WHOLE = """
#include <string.h>
int cuInit(unsigned f) { return 0; }
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return 0; }
int cuDriverGetVersion(int* v) { *v = 12040; return 0; }
int cuDeviceGetName(char* s, int n, int d) { strncpy(s, "a card", n); return 0; }
int cuDeviceTotalMem_v2(unsigned long* n, int d) { *n = 1ul << 34; return 0; }
int cuDeviceGetAttribute(int* v, int what, int d) { *v = what == 75 ? 9 : 0; return 0; }
"""
CRASHES = "#include <stdlib.h>\nint cuInit(unsigned f) { abort(); }\n"
STANDS_STILL = "#include <unistd.h>\nint cuInit(unsigned f) { for (;;) pause(); }\n"
CHATTERS = "#include <stdio.h>" + WHOLE.replace("{ return 0; }", '{ puts("a word"); return 0; }')
REFUSES = "int cuInit(unsigned f) { return 100; }\n"
OTHER = "int another_library;\n"


@unittest.skipUnless(shutil.which("cc"), "no C compiler")
class DriverTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(self.folder)}
        self.enterContext(mock.patch.dict(os.environ, self.env))

    def install(self, source):
        (self.folder / "driver.c").write_text(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.folder / gpu_host.DRIVER, self.folder / "driver.c"],
                       check=True)

    def expect_lack(self, source, *says):
        self.install(source)
        with self.assertRaises(gpu_host.NoGpu) as lacks:
            gpu_host.first_gpu()
        for each in says:
            self.assertIn(each, str(lacks.exception))

    def test_the_first_gpu_is_what_the_driver_says(self):
        for source in (WHOLE, CHATTERS):
            self.install(source)
            self.assertEqual(gpu_host.first_gpu(), gpu_host.Gpu("a card", 1 << 34, (9, 0), (12, 4), True))

    def test_what_a_driver_lacks_is_told(self):
        self.expect_lack(OTHER, "libcuda.so.1", "no cuInit")
        self.expect_lack(REFUSES, "cuInit ends with error 100")

    def test_a_driver_that_crashes_is_told_and_takes_nothing_with_it(self):
        self.expect_lack(CRASHES, "libcuda.so.1", "crashed", "SIGABRT")

    def test_a_driver_that_stands_still_is_waited_for_no_longer_than_said(self):
        with mock.patch.object(gpu_host, "ANSWER_S", 1):
            self.expect_lack(STANDS_STILL, "libcuda.so.1", "not answered within 1 s")

    def test_with_a_bad_driver_both_commands_end_as_without_a_gpu(self):
        for source, word in ((CRASHES, "SIGABRT"), (OTHER, "no cuInit")):
            self.install(source)
            for command in ("run", "bench"):
                done = subprocess.run([HERE / command], env=self.env, capture_output=True, text=True)
                self.assertEqual(done.returncode, checks.CANNOT_RUN, done.stderr)
                self.assertIn(word, done.stdout + done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_the_log_has_what_was_printed(self):
        self.install(REFUSES)
        log = self.folder / "log"
        done = subprocess.run([HERE / "run", "--log", log, "group"], env=self.env, capture_output=True, text=True)
        self.assertIn("0 passed", done.stdout)
        self.assertEqual(log.read_text(), done.stdout)

    def test_an_interpreter_that_stands_still_is_waited_for_no_longer_than_said(self):
        still = self.folder / "python"
        still.write_text(f"#!{sys.executable}\nimport signal\nsignal.pause()\n")
        still.chmod(0o755)
        before = list(gpu_host.packages_of_others)
        with mock.patch.object(gpu_host, "ANSWER_S", 1):
            gpu_host.search_packages_of(str(still))
        self.assertEqual(gpu_host.packages_of_others, before)


if __name__ == "__main__":
    unittest.main()
