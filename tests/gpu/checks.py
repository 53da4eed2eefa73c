"""Runs checks one after another, each within a time limit, and says of each whether it passed, failed or
could not run here."""

import subprocess
import sys
import time
import traceback

# What a run ends with that has checked nothing.
CANNOT_RUN = 77
# How long a program may take to end after SIGTERM.
GRACE_S = 20
LINES_SHOWN = 15


class Failed(Exception):
    """What is wrong."""


class Skipped(Exception):
    """Why a check cannot run here."""


class Limit:
    """The time that a check has."""

    def __init__(self, seconds, clock=time.monotonic):
        self.seconds, self._clock = seconds, clock
        self._end = clock() + seconds

    def left(self):
        left = self._end - self._clock()
        if left <= 0:
            raise Failed(f"not done within {self.seconds:.0f} s")
        return left


class Report:
    """One line a check, PASS, FAIL or SKIP, with its time and a reason; then the summary."""

    def __init__(self, out=sys.stdout, clock=time.monotonic):
        self._out, self._clock = out, clock
        self.counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}

    def check(self, name, seconds_max, body):
        """`body(limit)` returns what is worth a note. Returns whether it passed."""
        began = self._clock()
        try:
            verdict, note = "PASS", body(Limit(seconds_max, self._clock)) or ""
        except Skipped as why:
            verdict, note = "SKIP", str(why)
        except Failed as why:
            verdict, note = "FAIL", str(why)
        except Exception:  # the rest of the checks are worth their time
            verdict, note = "FAIL", traceback.format_exc()
        self._tell(verdict, name, self._clock() - began, note)
        return verdict == "PASS"

    def skip(self, name, why):
        self._tell("SKIP", name, 0, why)

    def _tell(self, verdict, name, seconds, note):
        self.counts[verdict] += 1
        first, *rest = note.strip().splitlines() or [""]
        print(f"{verdict}  {name:<22} {seconds:7.1f} s  {first}".rstrip(), file=self._out)
        for line in rest:
            print(f"      | {line}", file=self._out)
        self._out.flush()

    def summary(self):
        """Prints it; returns the exit code."""
        count = self.counts
        print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped",
              file=self._out, flush=True)
        if count["FAIL"]:
            return 1
        return 0 if count["PASS"] else CANNOT_RUN


def wanted(names, given):
    """Those of the names that are given, each by itself or, where there is none, by its beginning; all where
    nothing is given."""
    if not given:
        return set(names)
    return {name for name in names for each in given
            if name == each or (each not in names and name.startswith(each))}


def last_lines(text):
    return "\n".join(text.strip().splitlines()[-LINES_SHOWN:])


def stop(process):
    """SIGTERM, for what it has started to be ended too; SIGKILL where that does not help."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(command, limit, env=None):
    """Runs a command within the limit; returns (exit code, output with errors)."""
    command = [str(word) for word in command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env=env)
    try:
        output = process.communicate(timeout=limit.left())[0]
    except subprocess.TimeoutExpired:
        stop(process)
        output = process.communicate()[0]
        raise Failed(f"{command[0]} was not done within {limit.seconds:.0f} s\n{last_lines(output)}")
    finally:
        stop(process)
    return process.returncode, output


def succeed(command, limit, env=None):
    """Its output; anything but exit code 0 fails the check."""
    code, output = run(command, limit, env)
    if code != 0:
        raise Failed(f"{command[0]} ended with {code}\n{last_lines(output)}")
    return output
