"""Ninja's build graph: which test programs a source is linked into."""

import os
import re

# Kernels take minutes to compile, and the mutated files contain none.
# Without those that need a GPU, and those of pytorch_*, to which a script gives a server.
TEST_PROGRAM = re.compile(r"^tests/(?!pytorch_|\w*(?:cuda|on_device))\w+_test$")
# The installed programs. A source in none of them serves only tests.
PROGRAMS = ("bin/dp-coordinator", "bin/dp-worker", "bin/dp-guard", "bin/dp-trainer", "bin/dpctl")


class Graph:
    def __init__(self, text, top):
        """`text` is a build.ninja; `top` is the source folder as build.ninja names it."""
        self._top = str(top)
        self._users = {}  # {input: {output}}
        for line in text.replace("$\n", "").splitlines():
            match = re.match(r"build (.*?): \S+(.*)$", line)
            if match:
                self._add(match[1].split(), match[2].split())
        self._reached = {}

    def _add(self, outputs, inputs):
        outputs = [each for each in outputs if each != "|"]
        for each in inputs:
            # Order-only inputs only say when objects may be compiled.
            if not each.startswith(("|", "cmake_object_order_depends_target")):
                self._users.setdefault(each, set()).update(outputs)

    def _reaches(self, path):
        """Everything built from the source, directly or indirectly."""
        source = os.path.join(self._top, path)
        if source not in self._reached:
            reached, left = set(), [source]
            while left:
                fresh = self._users.get(left.pop(), set()) - reached
                reached |= fresh
                left += fresh
            self._reached[source] = reached
        return self._reached[source]

    def is_production(self, path):
        return any(program in self._reaches(path) for program in PROGRAMS)

    def test_programs(self, path):
        """The test programs that contain the source, or run a program that does; the nearest
        first."""
        programs = {each for each in self._reaches(path) if TEST_PROGRAM.match(each)}
        return sorted(programs, key=lambda each: (self._distance(path, each), each))

    def _distance(self, path, program):
        """The distance in folders between the source and the test program's nearest source."""
        folder = os.path.dirname(path)
        return min((len(os.path.relpath(home, folder).split(os.sep)) if home != folder else 0
                    for home in self._homes(program)), default=99)

    def _homes(self, program):
        """The folders of a test program's own objects."""
        name = f"/{os.path.basename(program)}.dir/"
        return {each.split("/CMakeFiles/")[0] for each, users in self._users.items()
                if program in users and name in each}
