"""Checks the systemd units with systemd's own tools, without starting systemd."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["DP_BIN"])
UNITS = BIN.parent / "systemd"
# The maximum exposure, of 10; `systemd-analyze security` calls values below 5 OK. The worker runs
# other people's programs. It cannot give up what these may need, such as devices and generated
# code.
EXPOSURE_MAX = {"dp-coordinator": 1.6, "dp-firewall": 7.0, "dp-worker": 2.7}


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True)


@unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze, of the package systemd")
class UnitsTest(unittest.TestCase):
    def verify(self, units):
        """Returns systemd's verdict on the units, installed in a tree with the programs that
        they name."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "etc/systemd/system").mkdir(parents=True)
            (root / "usr/lib/systemd").mkdir(parents=True)
            shutil.copytree("/usr/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
            for name, text in units.items():
                (root / "etc/systemd/system" / f"{name}.service").write_text(text)
                program = root / re.search(r"^ExecStart=(\S+)", text, re.MULTILINE).group(1).lstrip("/")
                program = root / "usr/sbin" / program.name if program.parent == root else program
                program.parent.mkdir(parents=True, exist_ok=True)
                program.touch(0o755)
            done = analyze("verify", f"--root={root}", *(f"{name}.service" for name in units))
            return done.returncode, done.stderr

    def units(self):
        return {name: (UNITS / f"{name}.service").read_text() for name in EXPOSURE_MAX}

    def test_systemd_understands_every_line(self):
        self.assertEqual(self.verify(self.units()), (0, ""))

    def test_a_line_that_it_does_not_understand_would_be_found(self):
        broken = {name: text.replace("WatchdogSec=", "WatchDogSec=")
                  for name, text in self.units().items()}
        self.assertRegex(self.verify(broken)[1], r"Unknown key( name)? 'WatchDogSec'")

    def test_no_service_is_more_exposed_than_it_needs_to_be(self):
        for name, most in EXPOSURE_MAX.items():
            done = analyze("security", "--offline=true", f"--threshold={int(10 * most)}",
                           UNITS / f"{name}.service")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nobody_calls_in_plain_text_and_no_list_of_processes_shows_a_token(self):
        for name in ("dp-coordinator", "dp-worker"):
            [command] = re.findall(r"^ExecStart=(.*)", self.units()[name], re.MULTILINE)
            self.assertNotIn("--insecure", command)
            self.assertNotIn("--join", command)

    def test_gpus_stay_visible_to_ranks(self):
        hiding = ("PrivateDevices=", "DevicePolicy=", "DeviceAllow=", "ProtectClock=")
        lines = self.units()["dp-worker"].splitlines()
        self.assertEqual([line for line in lines if line.startswith(hiding)], [])


if __name__ == "__main__":
    unittest.main()
