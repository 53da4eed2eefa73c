"""Judges whether the tests notice a mutant, and keeps results of earlier runs."""

import json
import os
import time

import program

# Time limit of one test program: ten times its duration without a mutant, and at least this.
PROGRAM_WITHIN_S = 60
SLOWER = 10


class Unusable(Exception):
    """The tree cannot judge any mutant."""


class Results:
    """One line of JSON per mutant, with a digest of the tree in which it was judged."""

    def __init__(self, path, digest, again=False, keep_caught=False):
        self._path, self._digest, self._known = path, digest, {}
        if path.exists() and not again:
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                if entry["tree"] == digest or (keep_caught and entry["outcome"] == "caught"):
                    self._known[entry["id"]] = entry

    def find(self, identity):
        return self._known.get(identity)

    def add(self, entry):
        with open(self._path, "a") as results:
            results.write(json.dumps({"tree": self._digest, **entry}) + "\n")


class Trial:
    """Builds and judges mutants in the workshop."""

    def __init__(self, workshop, graph):
        self._workshop, self._graph = workshop, graph
        self._baseline = {}  # {test program: seconds}

    def judge(self, mutant):
        """Returns an entry of the results; `outcome` is caught, survived, or not-compiled."""
        began = time.monotonic()
        original = self._workshop.original(mutant.path)
        try:
            outcome, by, why = self._first_that_notices(mutant, original)
        finally:
            self._workshop.put(mutant.path, original)
        return {"id": mutant.id, "outcome": outcome, "by": by, "why": why, "diff": mutant.diff(),
                "seconds": round(time.monotonic() - began)}

    def _first_that_notices(self, mutant, original):
        programs = self._graph.test_programs(mutant.path)
        for each in programs:
            if each not in self._baseline:
                self._workshop.put(mutant.path, original)
                self._try_unbroken(each)
            self._workshop.put(mutant.path, mutant.apply(original))
            if not self._workshop.build(each):
                return "not-compiled", "", ""
            ended = self._run(each, max(PROGRAM_WITHIN_S, SLOWER * self._baseline[each]))
            if not ended.passed:
                return "caught", os.path.basename(each), ended.why
        return "survived", "", f"passed: {', '.join(map(os.path.basename, programs)) or 'there is no test program'}"

    def _try_unbroken(self, each):
        """Runs the program without a mutant. A test that always fails would seem to catch
        everything."""
        if not self._workshop.build(each):
            raise Unusable(f"{each} cannot be built without a mutant:\n{self._workshop.log()[-4000:]}")
        ended = self._run(each, 10 * PROGRAM_WITHIN_S)
        if not ended.passed:
            raise Unusable(f"{each} fails without a mutant: {ended.why}")
        self._baseline[each] = ended.seconds

    def _run(self, each, within_s):
        return program.run(self._workshop.build_folder / each, program.OPTIONS.get(each, []), within_s)
