"""The progress of a training, from its metrics."""

import datetime
import json
import subprocess
import threading

from kit.cluster import TIMEOUT_S


class Progress:
    """Follows the reported steps of a job."""

    def __init__(self, bed, job):
        self._changed = threading.Condition()
        self.latest = (0, 0)  # generation, step
        self._told = []  # ((generation, step), the rank's time), in the order of arrival
        self.over = False
        self._logs = subprocess.Popen(
            [*map(str, bed.dpctl_command()), "logs", "-f", job, "--metrics", "-o", "json"],
            stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        bed.callback(self.close)

    def _read(self):
        for line in self._logs.stdout:
            told = json.loads(line)
            metric = json.loads(told["line"])
            if metric["event"] == "step":
                with self._changed:
                    at = datetime.datetime.fromisoformat(metric["time"]).timestamp()
                    self._told.append(((told["generation"], metric["step"]), at))
                    self.latest = max(self.latest, (told["generation"], metric["step"]))
                    self._changed.notify_all()
        with self._changed:
            self.over = True
            self._changed.notify_all()

    def wait(self, reached):
        """Returns the latest position once `reached` holds; None if the job ends before."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.over or reached(self.latest), TIMEOUT_S):
                raise TimeoutError(f"no progress beyond {self.latest}")
            return self.latest if reached(self.latest) else None

    def first(self, holds):
        """Returns the time of the first step for which `holds`; None if the job ends before."""
        def found():
            return min((at for step, at in self._told if holds(step, at)), default=None)
        with self._changed:
            if not self._changed.wait_for(lambda: self.over or found() is not None, TIMEOUT_S):
                raise TimeoutError(f"no such step up to {self.latest}")
            return found()

    def close(self):
        self._logs.kill()
        self._thread.join()
        self._logs.stdout.close()
        self._logs.wait()
