"""dpctl at a terminal of its own, where Ctrl-C is a key and no signal that the test sends."""

import fcntl
import os
import pty
import re
import selectors
import subprocess
import termios
import time

from kit.cluster import TIMEOUT_S

CTRL_C = b"\x03"


class Terminal:
    """with Terminal(command) as terminal: terminal.until("ready"); terminal.press(CTRL_C); terminal.end()"""

    def __init__(self, command, cwd=None):
        self._master, slave = pty.openpty()
        self.output = ""
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(TIMEOUT_S)
        os.close(self._master)

    def press(self, key):
        os.write(self._master, key)

    def until(self, text):
        """Reads until the screen has shown `text`."""
        self.until_match(re.escape(text))

    def until_match(self, pattern):
        """Reads until the screen has shown text that matches; returns the first match."""
        deadline = time.monotonic() + TIMEOUT_S
        while not (match := re.search(pattern, self.output)):
            if not self._read(deadline):
                raise AssertionError(f"no '{pattern}' on the terminal:\n{self.output}")
        return match

    def end(self):
        """Reads until the program ends; returns its exit code."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read(deadline):
            pass
        return self.process.wait(max(0, deadline - time.monotonic()))

    def _read(self, deadline):
        """Returns whether more came before the program closed its terminal or the deadline
        passed."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._master, selectors.EVENT_READ)
            if not selector.select(max(0, deadline - time.monotonic())):
                return False
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # the program has closed its side
            return False
        self.output += piece.decode(errors="replace")
        return bool(piece)
