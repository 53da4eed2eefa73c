#!/usr/bin/env python3
"""Runs ctest, then says what was skipped, a line a reason, and what failed, with the first
assertion of each case. A reader then need not search the output of all tests.

usage: skips.py BUILD [OPTION OF CTEST]...

With DP_REQUIRE_ALL=1 a skip is an error, but where the reason has nothing to do with what a machine
lets tests do (OPTIONAL).
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

# Keeps all output of the tests. The results file's name follows.
CTEST = ["ctest", "--test-output-size-passed", "100000000", "--test-output-size-failed", "100000000",
         "--output-junit"]
# Patterns that are searched for in a reason.
OPTIONAL = {
    "a GPU, or a host without one": r"GPU|CUDA|NVML|NCCL|cuDNN|this host has a driver",
    "wheels from the network": r"^kubectl and the schemas cannot be installed|^no package tokenizers",
    "hierarchies of cgroups v1": r"cgroups? of (freezer|name=systemd|memory)|beside (one of )?v1",
    "what containers seldom allow": r"^no IPv6 here|^no process may be traced here|^no user namespaces|files only$",
    "another PyTorch than the distribution's": r"^torch \d",
    "a case that a variant of a test has not": r"^one rank |has no step programs|^this backend ",
}
UNITTEST = re.compile(r"(?:^|\.\.\. )skipped (?P<quote>['\"])(?P<reason>.*)(?P=quote)$", re.MULTILINE)
GTEST = re.compile(r"^\S+:\d+: Skipped\n(?P<reason>.*)$", re.MULTILINE)
# A failed case and what it printed; of a Python case, what stands below its name at the end.
GTEST_FAILED = re.compile(r"^\[ RUN      \] (?P<case>\S+)\n(?P<text>(?:(?!\[ RUN ).*\n)*?)\[  FAILED  \] (?P=case)[, ]",
                          re.MULTILINE)
UNITTEST_FAILED = re.compile(r"^(?:FAIL|ERROR): (?P<case>.*)\n(?:.*\n)?-{70}\n(?P<text>(?:.*\n)*?)\n", re.MULTILINE)
GTEST_UNFINISHED = re.compile(r"^\[ RUN      \] (?P<case>\S+)\n(?P<text>(?:(?!\[ ).*\n)*)\Z", re.MULTILINE)
ASSERTION = re.compile(r"^\S+:\d+: Failure\n", re.MULTILINE)
WHY_LINES = 6


def reasons_of(case):
    """Why a program's cases, or the whole program, were skipped."""
    output = case.findtext("system-out") or ""
    reasons = [match["reason"] for form in (UNITTEST, GTEST) for match in form.finditer(output)]
    if case.find("skipped") is not None and not reasons:
        reasons.append((output.strip() or "no reason given").splitlines()[-1])
    return [reason.strip() for reason in reasons]


def why(text):
    """The first lines of the first assertion, else the last lines."""
    assertion = ASSERTION.search(text)
    return text[assertion.start():].splitlines()[:WHY_LINES] if assertion else text.rstrip().splitlines()[-WHY_LINES:]


def failures(cases):
    """A line for each failed case, or for a program that names none, with indented ones that say why."""
    for case in cases:
        if case.get("status") != "fail":
            continue
        output = case.findtext("system-out") or ""
        failed = [match for form in (GTEST_FAILED, GTEST_UNFINISHED, UNITTEST_FAILED) for match in form.finditer(output)]
        for name, text in [(match["case"], match["text"]) for match in failed] or [("", output)]:
            yield f"FAILED {case.get('name')} {name}".rstrip()
            yield from (f"    {line}" for line in why(text))


def find(cases):
    """{reason: [program, ...]}, with the program once for each of its cases."""
    programs = collections.defaultdict(list)
    for case in cases:
        for reason in reasons_of(case):
            programs[reason].append(case.get("name"))
    return programs


def is_optional(reason):
    return any(re.search(pattern, reason) for pattern in OPTIONAL.values())


def line(reason, programs):
    return f"SKIPPED {len(programs)}: {reason} ({', '.join(sorted(set(programs)))})"


def report(results):
    """Prints all reasons and failures; returns the exit code."""
    cases = list(xml.etree.ElementTree.parse(results).iter("testcase"))
    skipped = find(cases)
    for reason in sorted(skipped, key=lambda reason: (not is_optional(reason), reason)):
        print(line(reason, skipped[reason]))
    for told in failures(cases):
        print(told)
    required = [reason for reason in skipped if not is_optional(reason)]
    if os.environ.get("DP_REQUIRE_ALL") != "1" or not required:
        return 0
    print(f"DP_REQUIRE_ALL=1: {len(required)} of these reasons must not be here", file=sys.stderr)
    return 1


def main(build, *options):
    results = pathlib.Path(build).resolve() / "tests.xml"
    results.unlink(missing_ok=True)
    tests = subprocess.run([*CTEST, results, "--test-dir", build, *options])
    return max(report(results), tests.returncode)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
