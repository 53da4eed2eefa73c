"""The guide for hosts with systemd, followed to the letter: its commands are taken from the page and run,
in a root tree with a systemd of its own, from the tarball of `make dist`."""

import pathlib
import re
import shutil
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

import own_root  # noqa: E402
from systemd_root import SystemdRoot  # noqa: E402

GUIDE = (TOP / "docs/deploy-systemd.md").read_text()
# What the commands of the guide use beside what systemd brings.
PACKAGES = ("tar", "gzip", "sed", "iproute2", "nftables")


def setUpModule():
    reason = own_root.why_not()
    if reason:
        raise unittest.SkipTest(reason)


def section(title):
    """The text from its heading to the next."""
    return re.search(rf"^## {re.escape(title)}.*?(?=^## )", GUIDE, re.MULTILINE | re.DOTALL).group(0)


def commands(title):
    """Those that stand behind a prompt, in order; what stands without one is their output."""
    blocks = re.findall(r"^```console\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if re.match(r"[#$] ", line)]


class GuideTest(unittest.TestCase):
    def test_from_a_bare_host_to_a_first_job(self):
        try:
            tree = SystemdRoot(*PACKAGES)
        except LookupError as missing:
            self.skipTest(f"{missing}; a bootable tree is made of installed packages")
        with tree:
            for each in (TOP / "dist").glob("dp-*-linux-x86_64.tar.gz*"):
                shutil.copy(each, tree.path / "root")
            tree.start()
            # The address that the guide gives to the coordinator's host, which is this one.
            self.follow(tree, ["ip address add 10.0.0.1/24 dev lo"])
            for title in ("1. Unpack", "2. Close the port", "3. The coordinator", "4. A worker"):
                self.follow(tree, commands(title))
            first, *more, training = commands("5. A first job")
            self.assertIn("fashion_mnist", training)  # its data set is not on this host
            said = self.follow(tree, [first, *more])
            self.assertRegex(said, "rank 1 of 2 on ")
            self.assertEqual(tree.shown("dp-coordinator", "StatusText"), "listening on 10.0.0.1:7070")

    def follow(self, tree, lines):
        """All in one shell, as somebody would type them; the first that fails ends it."""
        text = "\n".join(line.replace("--nnodes 2", "--nnodes 1") for line in lines)
        done = tree.run("bash", "-exc", f"cd /root\n{text}", check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


if __name__ == "__main__":
    unittest.main()
