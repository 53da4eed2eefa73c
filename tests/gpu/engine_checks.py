"""Checks of the engine by itself: the device's conformance to its CPU twins, and the sanitizers."""

import dataclasses
import json
import pathlib
import re
import tempfile

import gpu_host
from checks import Failed, Skipped, first_lines, last_lines, run, succeed

# The tests that need a GPU: kernels and runtime, the whole device, and the library's arithmetic, each compared with its
# twin on the CPU.
CONFORMANCE = {"kernels": "dp_cuda_conformance", "device": "dp_cuda_device_test", "arrays": "dp_cuda_math_test"}
# The tests that each tool watches. Only memcheck watches cuBLASLt and cuDNN: we could not fix what the other tools
# report about their kernels.
SANITIZERS = (("memcheck", "kernels"), ("memcheck", "device"), ("memcheck", "arrays"), ("racecheck", "kernels"),
              ("racecheck", "arrays"), ("initcheck", "kernels"), ("initcheck", "arrays"))
SANITIZER_FOUND = 99
# Under a sanitizer a kernel takes up to a thousand times as long. Sanitizers therefore leave out tests of hundreds of
# steps and of the largest arrays; all of `too_long` in the device's CMakeLists.txt must be here.
TOO_LONG = ("*.GradientsOfAGptAreTheSlopesOfTheLoss/*", "*.TrainingLowersTheLossWithTheSameBitsEachTime/*",
            "*.AProgramOverATextTakesTheStepsOfItsParts/*", "*.GradientsFlowThroughAttention/*",
            "Beyond32Bits/*")
# This test makes an allocation that must fail.
FAILS_ON_PURPOSE = ("CudaTest.MemoryThatIsNotThere*",)
# The most tests that may end their program before the rest is given up, and the most failed tests that are tried alone.
BREAKS_MAX, ALONE_MAX = 3, 8
OF_LIBRARIES = ("*Cudnn*", "*Gemm*", "*Convolution*", "*AttentionPlan*")


def self_check(programs, limit):
    output = succeed([programs.program("dp-trainer-cuda"), "--self-check"], limit, gpu_host.environment())
    return " ".join(output.split())[:200]


@dataclasses.dataclass
class Ran:
    """The result of a test program."""
    code: int
    output: str
    passed: list
    skipped: list
    failed: dict  # by name, the test's first message
    broke_in: str  # the test in which the program itself ended; empty if it ran to its end

    def __str__(self):
        return f"{len(self.passed)} tests" + (f", {len(self.skipped)} skipped" if self.skipped else "")

    def said(self):
        """The part of its output worth reading: a sanitizer's first complaint, or the end."""
        complaints = [line for line in self.output.splitlines() if line.startswith("=========")]
        return first_lines("\n".join(complaints)) or last_lines(self.output)


def outcomes(report):
    """(passed, skipped, {failed: first message}) by name, of a GoogleTest report."""
    passed, skipped, failed = [], [], {}
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if test.get("failures"):
                failed[name] = test["failures"][0]["failure"]
            elif test.get("result") == "SKIPPED":
                skipped.append(name)
            elif test.get("result") == "COMPLETED":
                passed.append(name)
    return passed, skipped, failed


def attempt(command, limit, filter_):
    """Runs a test program once."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        code, output = run([*command, f"--gtest_output=json:{report}", f"--gtest_filter={filter_}"], limit,
                           gpu_host.environment())
        if report.exists():
            return Ran(code, output, *outcomes(json.loads(report.read_text())), broke_in="")
    began = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    if not began:
        raise Failed(f"exit code {code}\n{last_lines(output)}")
    return Ran(code, output, [], [], {}, broke_in=began[-1])


def googletest(command, limit, without=(), alone=ALONE_MAX):
    """Runs a test program, of which at least one test must run; returns its result. If the program ends in the middle
    of a test, runs it again without that test."""
    wrong = {}
    ran = attempt(command, limit, f"-{':'.join(without)}")
    while ran.broke_in and len(wrong) < BREAKS_MAX:
        wrong[ran.broke_in] = f"ended with {ran.code}\n{ran.said()}"
        ran = attempt(command, limit, f"-{':'.join([*without, *wrong])}")
    if ran.broke_in:
        wrong[ran.broke_in] = f"ended with {ran.code}\n{ran.said()}"
    wrong.update(ran.failed)
    if wrong:
        first, said = next(iter(wrong.items()))
        raise Failed(f"{len(wrong)} wrong, {len(ran.passed)} right; first {first}"
                     f"{again(command, limit, ran.failed, alone)}\n{first_lines(said)}")
    if ran.code != 0:
        raise Failed(f"exit code {ran.code}\n{ran.said()}")
    if not ran.passed:
        reasons = dict.fromkeys(re.findall(r": Skipped\n(.+)", ran.output))
        raise Failed(f"no test ran, {len(ran.skipped)} were skipped\n{first_lines(chr(10).join(reasons))}")
    return ran


def again(command, limit, failed, most):
    """Which of the failed tests also fail alone: an error of the device fails all tests after it, too."""
    rest = list(failed)[1:1 + most]
    if not rest:
        return ""
    by_themselves = []
    try:
        for name in rest:
            if attempt(command, limit, name).code != 0:
                by_themselves.append(name)
    except Failed:
        return "; no time was left to try the others alone"
    return f"; of {len(rest)} more, alone fail: {', '.join(by_themselves) or 'none'}"


def conformance(programs, part, limit):
    return str(googletest([programs.test(CONFORMANCE[part])], limit))


def left_out(tool):
    """The tests that this sanitizer leaves out."""
    return [*TOO_LONG, *FAILS_ON_PURPOSE, *(() if tool == "memcheck" else OF_LIBRARIES)]


def sanitizer_command(sanitizer, tool, test):
    """Without --report-api-errors no, memcheck would count each failing call of the runtime. Programs and libraries
    also use failing calls to find out what is there; tests without a sanitizer cover how they react."""
    options = ["--report-api-errors", "no"] if tool == "memcheck" else []
    return [sanitizer, "--tool", tool, *options, "--error-exitcode", SANITIZER_FOUND, "--target-processes", "all", test]


def sanitize(programs, tool, part, limit):
    test = programs.test(CONFORMANCE[part])
    sanitizer = gpu_host.compute_sanitizer()
    if sanitizer is None:
        raise Skipped("compute-sanitizer is not installed")
    try:
        ran = googletest(sanitizer_command(sanitizer, tool, test), limit, left_out(tool), alone=0)
    except Failed as failed:
        if "Device not supported" in str(failed):
            raise Skipped("compute-sanitizer does not support the device here") from None
        raise
    found = [line.strip("= ") for line in ran.output.splitlines() if "SUMMARY" in line]
    return ", ".join([str(ran), *found[-1:]])
