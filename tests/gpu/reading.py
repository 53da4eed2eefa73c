"""Waits for the output of a running program."""

import os
import select

from checks import CANNOT_RUN, Failed, Skipped, last_lines


def until(text, process, limit):
    """Reads the program's output until `text` is in it; returns all that was read."""
    said = ""
    while text not in said:
        if not select.select([process.stdout], [], [], limit.left())[0]:
            continue
        # Reads past the stream's own buffer, whose contents select does not see.
        piece = os.read(process.stdout.fileno(), 1 << 16)
        said += piece.decode(errors="replace")
        if piece:
            continue
        if process.wait(limit.left()) == CANNOT_RUN:
            raise Skipped(last_lines(said))
        raise Failed(f"it ended before '{text}'\n{last_lines(said)}")
    return said
