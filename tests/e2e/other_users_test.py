"""Two users share a host and its /tmp. Neither gets hold of the other's cluster or programs."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from kit import accounts
from kit.accounts import ANN, Accounts
from kit.cluster import BIN, TIMEOUT_S, Program, eventually

REFUSED = 1  # an exit code
# Runs a program with a directory of the test's own as /tmp.
BIND_TMP = 'mount --bind "$1" /tmp && cd / && shift && exec "$@"'


class SharedTmp(unittest.TestCase):
    """Everything is in `tmp`, which the users' programs see as /tmp."""

    def setUp(self):
        if reason := accounts.why_not():
            self.skipTest(reason)
        self.accounts = self.enterContext(Accounts())
        self.tmp = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="dp-e2e-")))
        self.tmp.chmod(0o1777)
        (self.tmp / "bin").mkdir(0o755)
        for program in ("dp-coordinator", "dp-worker", "dp-guard", "dpctl"):
            shutil.copy(BIN / program, self.tmp / "bin")
        self.logs = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="dp-e2e-")))
        self.programs = 0

    def prefix(self, user):
        as_user = self.accounts.prefix_as(user)[len(self.accounts.prefix):]
        return [*self.accounts.prefix, "sh", "-c", BIND_TMP, "sh", str(self.tmp), *as_user]

    def start(self, user, program, *args, wait=True):
        self.programs += 1
        started = Program([f"/tmp/bin/{program}", *args], self.logs / str(self.programs),
                          prefix=self.prefix(user), wait=wait)
        self.addCleanup(started.close)
        return started

    def coordinator(self, user, listen="127.0.0.1:0", **how):
        return self.start(user, "dp-coordinator", "--listen", listen, "--data-dir", "/tmp/dp", **how)

    def run_as(self, user, *args):
        return subprocess.run([*self.prefix(user), *map(str, args)], capture_output=True, text=True,
                              timeout=TIMEOUT_S)

    def dpctl(self, user, address, *args):
        return self.run_as(user, "/tmp/bin/dpctl", "--coordinator", address, *args)

    def link(self, address):
        return self.tmp / f"dp-{ANN}" / address


class DataDirTest(SharedTmp):
    def refusal(self, user):
        coordinator = self.coordinator(user, wait=False)
        self.assertEqual(coordinator.process.wait(TIMEOUT_S), REFUSED)
        return coordinator.log()

    def test_a_directory_that_another_user_has_made_is_refused(self):
        self.assertEqual(self.coordinator("bob").stop(), 0)
        self.assertEqual(self.run_as("bob", "chmod", "-R", "a+rwX", "/tmp/dp").returncode, 0)
        self.assertRegex(self.refusal("ann"), "data directory /tmp/dp is not used: /tmp/dp .mode 0777. belongs "
                                              "to another user, user bob; .* --data-dir")

    def test_an_identity_that_another_user_has_put_into_an_open_directory_is_refused(self):
        self.assertEqual(self.coordinator("bob").stop(), 0)
        self.run_as("ann", "mkdir", "-m", "777", "/tmp/ann")
        self.run_as("bob", "cp", "-r", "/tmp/dp/identity", "/tmp/ann/identity")
        self.run_as("bob", "chmod", "-R", "a+rX", "/tmp/ann/identity")
        self.run_as("bob", "rm", "-r", "/tmp/dp")
        self.run_as("ann", "mv", "/tmp/ann", "/tmp/dp")
        self.assertIn("/tmp/dp (of user ann, mode 0777) can be written by other users", self.refusal("ann"))
        self.run_as("ann", "chmod", "755", "/tmp/dp")
        self.assertIn("/tmp/dp/identity (mode 0755) belongs to another user, user bob", self.refusal("ann"))


class LinkTest(SharedTmp):
    def take_over(self, stop):
        """Ann's coordinator ends, she removes its directory, and bob makes it again with a
        credential that everybody can read. Returns the address, and her worker's state before."""
        coordinator = self.coordinator("ann")
        address = coordinator.line.split()[-1]
        self.assertEqual(os.readlink(self.link(address)), "/tmp/dp/identity/admin")
        self.worker(address).stop()
        stop(coordinator)
        self.run_as("ann", "rm", "-r", "/tmp/dp")
        self.coordinator("bob", address)
        self.run_as("bob", "chmod", "-R", "a+rX", "/tmp/dp")
        return address

    def worker(self, address, **how):
        return self.start("ann", "dp-worker", "--coordinator", address, "--name", "w", "--state-dir",
                          "/tmp/state", **how)

    def test_a_coordinator_removes_its_link_when_it_ends(self):
        address = self.take_over(lambda coordinator: self.assertEqual(coordinator.stop(), 0))
        self.assertFalse(os.path.lexists(self.link(address)))
        self.assertIn("you are not logged in", self.dpctl("ann", address, "--timeout", "1s", "whoami").stderr)

    def test_a_link_to_a_credential_that_another_user_made_is_not_followed(self):
        address = self.take_over(Program.kill)
        whoami = self.dpctl("ann", address, "whoami")
        self.assertEqual(whoami.returncode, REFUSED, whoami.stdout)
        self.assertRegex(whoami.stderr, "/tmp/dp .*belongs to another user, user bob.*--credentials")
        certificate = (self.tmp / "state/credential/tls.crt").read_bytes()
        known = self.worker(address, wait=False)
        self.assertTrue(eventually(lambda: "coordinator_unreachable" in known.log()), known.log())
        stranger = self.start("ann", "dp-worker", "--coordinator", address, "--state-dir", "/tmp/other-state",
                              wait=False)
        self.assertEqual(stranger.process.wait(TIMEOUT_S), REFUSED)
        self.assertIn("belongs to another user, user bob", stranger.log())
        self.assertEqual((self.tmp / "state/credential/tls.crt").read_bytes(), certificate)
        self.assertEqual(self.dpctl("bob", address, "workers", "-o", "name").stdout, "")

    def test_a_directory_of_links_that_another_user_made_is_named_with_the_remedy(self):
        self.run_as("bob", "mkdir", "-m", "777", f"/tmp/dp-{ANN}")
        whoami = self.dpctl("ann", "127.0.0.1:1", "whoami")
        self.assertEqual(whoami.returncode, REFUSED)
        self.assertRegex(whoami.stderr, f"/tmp/dp-{ANN}, cannot be used: it belongs to another user; log in .'dpctl "
                                        "login'., .*--credentials DIR/identity/admin")


if __name__ == "__main__":
    unittest.main()
