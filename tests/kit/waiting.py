"""How tests wait for processes."""

import pathlib
import time

TIMEOUT_S = 240


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def eventually(question, timeout_s=TIMEOUT_S):
    """Repeats the question until its answer is true, and returns the answer. A question is a round
    trip, often of a new process. Each pause is a tenth of the time waited so far, at most
    0.2 s, so that a long wait leaves the processors to the programs under test."""
    began = time.monotonic()
    while True:
        answer = question()
        waited = time.monotonic() - began
        if answer or waited > timeout_s:
            return answer
        time.sleep(min(waited / 10, 0.2))
