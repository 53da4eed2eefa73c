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
    """Repeats the question until its answer is true, and returns the answer. Each question is a
    round trip."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = question()
        if answer or time.monotonic() > deadline:
            return answer
