"""Checks of the engine by itself: the device's conformance to its CPU twins, and the sanitizers."""

import json
import pathlib
import tempfile

import gpu_host
from checks import Failed, Skipped, last_lines, run, succeed

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
OF_LIBRARIES = ("*Cudnn*", "*Gemm*", "*Convolution*", "*AttentionPlan*")


def self_check(programs, limit):
    output = succeed([programs.program("dp-trainer-cuda"), "--self-check"], limit, gpu_host.environment())
    return " ".join(output.split())[:200]


def outcomes(report):
    """(passed, skipped, failed) names of a GoogleTest report."""
    passed, skipped, failed = [], [], []
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            name = f"{suite['name']}.{test['name']}"
            if test.get("failures"):
                failed.append(name)
            elif test.get("result") == "SKIPPED":
                skipped.append(name)
            elif test.get("result") == "COMPLETED":
                passed.append(name)
    return passed, skipped, failed


def googletest(command, limit):
    """Runs a test program of which at least one test must run; returns (output, what it did)."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        code, output = run([*command, f"--gtest_output=json:{report}"], limit, gpu_host.environment())
        written = report.exists()
        passed, skipped, failed = outcomes(json.loads(report.read_text())) if written else ([], [], [])
    if code != 0:
        raise Failed(f"exit code {code} {', '.join(failed)}\n{last_lines(output)}")
    if not passed:
        raise Failed(f"no test ran, {len(skipped)} were skipped\n{last_lines(output)}")
    return output, f"{len(passed)} tests" + (f", {len(skipped)} skipped" if skipped else "")


def conformance(programs, part, limit):
    return googletest([programs.test(CONFORMANCE[part])], limit)[1]


def sanitizer_command(sanitizer, tool, test):
    """memcheck would count each call of the runtime that fails, with which programs and libraries also ask
    what there is: their own answers to that are tested without it."""
    left_out = [*TOO_LONG, *FAILS_ON_PURPOSE, *(() if tool == "memcheck" else OF_LIBRARIES)]
    options = ["--report-api-errors", "no"] if tool == "memcheck" else []
    return [sanitizer, "--tool", tool, *options, "--error-exitcode", SANITIZER_FOUND, "--target-processes",
            "all", test, f"--gtest_filter=-{':'.join(left_out)}"]


def sanitize(programs, tool, part, limit):
    test = programs.test(CONFORMANCE[part])
    sanitizer = gpu_host.compute_sanitizer()
    if sanitizer is None:
        raise Skipped("compute-sanitizer is not installed")
    try:
        output, tests = googletest(sanitizer_command(sanitizer, tool, test), limit)
    except Failed as failed:
        if "Device not supported" in str(failed):
            raise Skipped("compute-sanitizer does not support the device here") from None
        raise
    found = [line.strip("= ") for line in output.splitlines() if "SUMMARY" in line]
    return ", ".join([tests, *found[-1:]])
