"""Runs checks one after another, each within a time limit, and reports each as passed, failed or skipped."""

import pathlib
import subprocess
import sys
import time
import traceback

# Exit code of a run that checked nothing.
CANNOT_RUN = 77
# How long a program may take to exit after SIGTERM.
GRACE_S = 20
# Bounds on the shown output of a program, so that the reports of many failures can be read together.
LINES_SHOWN = 15
LINE_BYTES_SHOWN = 240
# The time in which a program can at least start. With less time left, a check is skipped.
WORTH_STARTING_S = 5


class Failed(Exception):
    """A check failed; the message says what is wrong."""


class Skipped(Exception):
    """A check cannot run here; the message says why."""


class Limit:
    """The time limit of a check."""

    def __init__(self, seconds, clock=time.monotonic):
        self.seconds, self._clock = seconds, clock
        self._end = clock() + seconds

    def remaining(self):
        return self._end - self._clock()

    def left(self):
        """The seconds that remain; fails the check if there are none."""
        left = self.remaining()
        if left <= 0:
            raise Failed(f"not done within {self.seconds:.0f} s")
        return left


class Report:
    """Prints one line per check (PASS, FAIL or SKIP) with its time and a reason; then the summary. Skips the checks
    that are left when `seconds_max`, the time for all checks, has passed."""

    def __init__(self, out=sys.stdout, clock=time.monotonic, seconds_max=None):
        self._out, self._clock = out, clock
        self._all = None if seconds_max is None else Limit(seconds_max, clock)
        self.names = {"PASS": [], "FAIL": [], "SKIP": []}
        self._late = []

    def check(self, name, seconds_max, body, others_wait=False):
        """Runs `body(limit)`, which may return a note. Returns whether the check passed. With `others_wait` the check
        gets at most half of the time left for all, so that a check that hangs leaves time for the others."""
        if self._all:
            seconds_max = min(seconds_max, self._all.remaining() / (2 if others_wait else 1))
            if seconds_max < WORTH_STARTING_S:
                self._late.append(name)
                return self._tell("SKIP", name, 0, "no time is left for it")
        began = self._clock()
        try:
            verdict, note = "PASS", body(Limit(seconds_max, self._clock)) or ""
        except Skipped as why:
            verdict, note = "SKIP", str(why)
        except Failed as why:
            verdict, note = "FAIL", str(why)
        except Exception:  # the other checks must still run
            verdict, note = "FAIL", traceback.format_exc()
        return self._tell(verdict, name, self._clock() - began, note)

    def skip(self, name, why):
        self._tell("SKIP", name, 0, why)

    def _tell(self, verdict, name, seconds, note):
        self.names[verdict].append(name)
        first, *rest = [line[:LINE_BYTES_SHOWN] for line in note.strip().splitlines()] or [""]
        self.say(f"{verdict}  {name:<22} {seconds:7.1f} s  {first}".rstrip())
        for line in rest:
            self.say(f"      | {line}")
        return verdict == "PASS"

    def say(self, line):
        """Prints the line and, if there is a log, logs it."""
        print(line, file=self._out, flush=True)
        to_log(f"{line}\n")

    def summary(self):
        """Prints the failed checks, the late ones and the counts; returns the exit code."""
        count = {verdict: len(names) for verdict, names in self.names.items()}
        if self.names["FAIL"]:
            self.say(" ".join(["failed:", *self.names["FAIL"]]))
        if self._late:
            self.say(" ".join(["no time was left for:", *self._late]))
        self.say(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped")
        if count["FAIL"]:
            return 1
        return 0 if count["PASS"] else CANNOT_RUN


def wanted(names, given):
    """The selected names. Each given word selects the name that equals it or, if there is none, the names that
    begin with it. Without given words, all names."""
    if not given:
        return set(names)
    return {name for name in names for each in given
            if name == each or (each not in names and name.startswith(each))}


def first_lines(text):
    return "\n".join(text.strip().splitlines()[:LINES_SHOWN])


def last_lines(text):
    return "\n".join(text.strip().splitlines()[-LINES_SHOWN:])


_log_path = None


def log_to(path):
    """Logs the output of all programs, and the reports, to this file; None stops the log."""
    global _log_path
    _log_path = path and pathlib.Path(path).resolve()
    if path:
        _log_path.write_text("")


def to_log(text):
    if _log_path is not None:
        with open(_log_path, "a") as log:
            log.write(text)


def keep(command, ending, output):
    """Logs, if there is a log, what a program printed and how it ended."""
    to_log(f"$ {' '.join(map(str, command))}\n{output.rstrip()}\n-> {ending}\n\n")


def stop(process):
    """Sends SIGTERM, so that the program also ends what it started; SIGKILL if it does not exit."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(command, limit, env=None):
    """Runs a command within the limit; returns (exit code, standard output and errors)."""
    command = [str(word) for word in command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", env=env)
    try:
        output = process.communicate(timeout=limit.left())[0]
    except subprocess.TimeoutExpired:
        stop(process)
        output = process.communicate()[0]
        keep(command, "was not done in time", output)
        raise Failed(f"{command[0]} was not done within {limit.seconds:.0f} s\n{last_lines(output)}")
    finally:
        stop(process)
    keep(command, process.returncode, output)
    return process.returncode, output


def succeed(command, limit, env=None):
    """Runs a command and returns its output; any exit code but 0 fails the check."""
    code, output = run(command, limit, env)
    if code != 0:
        raise Failed(f"{command[0]} ended with {code}\n{last_lines(output)}")
    return output
