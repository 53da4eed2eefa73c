"""Checks of the engine by itself: the device's conformance to its CPU twins, and the sanitizers."""

import dataclasses
import json
import pathlib
import re
import tempfile

import gpu_host
from checks import Failed, Skipped, first_lines, last_lines, run, succeed

# The CUDA device's tests that need a GPU: kernels and runtime, and the whole device, each held against its
# twin on the CPU.
CONFORMANCE = {"kernels": "dp_cuda_conformance", "device": "dp_cuda_device_test"}
# What each tool watches. cuBLASLt and cuDNN are watched by memcheck alone: what the others say of their
# kernels is nothing that we could mend.
SANITIZERS = (("memcheck", "kernels"), ("memcheck", "device"), ("racecheck", "kernels"), ("initcheck", "kernels"))
SANITIZER_FOUND = 99
# Under a sanitizer a kernel takes up to a thousand times as long: what takes hundreds of steps, as the list
# `minutes_long` of the device's CMakeLists.txt has it, is no case for one.
TOO_LONG = ("*.GradientsOfAGptAreTheSlopesOfTheLoss/*", "*.TrainingLowersTheLossWithTheSameBitsEachTime/*",
            "*.AProgramOverATextTakesTheStepsOfItsParts/*", "*.GradientsFlowThroughAttention/*")
# An allocation that must fail.
FAILS_ON_PURPOSE = ("CudaTest.MemoryThatIsNotThere*",)
# After so many tests that end their program, the rest is not tried; and of those that fail so many are, alone.
BREAKS_MAX, ALONE_MAX = 3, 8
OF_LIBRARIES = ("*Cudnn*", "*Gemm*", "*Convolution*", "*AttentionPlan*")


def self_check(programs, limit):
    output = succeed([programs.program("dp-trainer-cuda"), "--self-check"], limit, gpu_host.environment())
    return " ".join(output.split())[:200]


@dataclasses.dataclass
class Ran:
    """What a test program did."""
    code: int
    output: str
    passed: list
    skipped: list
    failed: dict  # by name, what the test said first
    broke_in: str  # the test in which the program itself ended; empty where it came to its end

    def __str__(self):
        return f"{len(self.passed)} tests" + (f", {len(self.skipped)} skipped" if self.skipped else "")

    def said(self):
        """What is worth reading of it: a sanitizer's first complaint, or the end."""
        complaints = [line for line in self.output.splitlines() if line.startswith("=========")]
        return first_lines("\n".join(complaints)) or last_lines(self.output)


def outcomes(report):
    """(passed, skipped, {failed: what it said first}) by names, of a GoogleTest report."""
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
    """Runs a test program."""
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
    """Runs a test program of which at least one test must run; returns what it did. Where it ends in the middle
    of a test, it is run again without that one."""
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
    """Which of those that failed do so alone: an error of the device is found again by all tests behind it."""
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
    """Tests that are not for this sanitizer."""
    return [*TOO_LONG, *FAILS_ON_PURPOSE, *(() if tool == "memcheck" else OF_LIBRARIES)]


def sanitizer_command(sanitizer, tool, test):
    """memcheck would count each call of the runtime that fails, with which programs and libraries also ask
    what there is: their own answers to that are tested without it."""
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
