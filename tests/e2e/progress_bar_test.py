"""An unfinished line that carriage returns redraw is shown as far as it goes. No byte of it is
lost."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from kit.cluster import Cluster
from kit.terminal import Terminal

DRAW = """
import os, sys
go = open(sys.argv[1], 'rb', buffering=0)
out = open(2, 'wb', buffering=0, closefd=False)
out.write(b'begin\\r\\n\\r 10%')
go.read(1)
out.write(b'\\r 20%')
go.read(1)
out.write(b'\\r100%\\n' + b'x' * 200000 + b'\\n' + b'no end')
"""
DRAWN = b"begin\r\n\r 10%\r 20%\r100%\n" + b"x" * 200000 + b"\nno end"
FLOOD = "import sys\nfor i in range(100000): sys.stdout.write(f'\\r{i}'); sys.stdout.flush()"


class ProgressBarTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.worker(slots=1, name="worker-a")
        self.fifo = self.cluster.dir / "go"
        os.mkfifo(self.fifo)
        # Kept open: neither side then waits for the other to open it, or sees its end.
        self.go_on = os.open(self.fifo, os.O_RDWR)
        self.addCleanup(os.close, self.go_on)

    def draw(self, *flags):
        return [*self.cluster.dpctl_command(), "run", *flags, "--", sys.executable, "-c", DRAW, self.fifo]

    def go(self):
        os.write(self.go_on, b"g")

    def records(self, job):
        """The text that the job wrote, joined from its pieces, and the number of pieces."""
        text, pieces = "", 0
        for line in self.cluster.dpctl("logs", job, "-o", "json", check=0).stdout.splitlines():
            record = json.loads(line)
            text += record["line"] + ("" if record.get("continued") else "\n")
            pieces += 1
        return text, pieces

    def test_a_bar_is_shown_while_it_is_drawn_and_files_hold_what_was_written(self):
        logs = self.cluster.dir / "logs"
        with Terminal(self.draw("-t", "3", "--log-dir", logs)) as terminal:
            terminal.until("\r[0 ")
            terminal.until(" 10%")
            self.go()
            terminal.until(" 20%")
            self.go()
            self.assertEqual(terminal.end(), 0, terminal.output)
        self.assertRegex(terminal.output, r"\r\[0 \S+\]  10%\r\[0 \S+\]  20%\r\[0 \S+\] 100%\r?\n")
        file, = pathlib.Path(logs).glob("*/attempt_0/0/stderr.log")
        self.assertEqual(file.read_bytes(), DRAWN)

    def test_json_marks_pieces_that_go_on(self):
        self.go()
        self.go()
        self.assertEqual(subprocess.run(list(map(str, self.draw())), capture_output=True).returncode, 0)
        self.assertEqual(self.records("1")[0], DRAWN.decode() + "\n")

    def test_a_flood_of_carriage_returns_comes_in_few_pieces(self):
        done = self.cluster.dpctl("run", "--", sys.executable, "-c", FLOOD, check=0)
        self.assertIn("99999", done.stdout)
        text, pieces = self.records("1")
        self.assertEqual(text.rstrip("\n"), "".join(f"\r{i}" for i in range(100000)))
        self.assertLess(pieces, 10000)


if __name__ == "__main__":
    unittest.main()
