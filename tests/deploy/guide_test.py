"""Follows the guide for hosts with systemd to the letter. Its commands come from the page and
run in a root tree with its own systemd, on the tarball of `make dist`."""

import json
import pathlib
import re
import shutil
import sys
import tarfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

import own_root  # noqa: E402
from kit.cluster import eventually  # noqa: E402
from systemd_root import SystemdRoot  # noqa: E402

GUIDE = (TOP / "docs/deploy-systemd.md").read_text()
# Packages that the guide's commands need in addition to systemd's.
PACKAGES = ("tar", "gzip", "sed", "iproute2", "nftables")
# The guide's name for the next release.
NEW = "dp-NEW-linux-x86_64"


def setUpModule():
    reason = own_root.why_not()
    if reason:
        raise unittest.SkipTest(reason)


def section(title):
    """The text from the section's heading to the next heading."""
    return re.search(rf"^## {re.escape(title)}.*?(?=^## )", GUIDE, re.MULTILINE | re.DOTALL).group(0)


def commands(title):
    """The commands behind a prompt, in order; lines without a prompt are output."""
    blocks = re.findall(r"^```console\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if re.match(r"[#$] ", line)]


def repack(archive, name, folder):
    """Writes the tarball into the folder as another release's tarball."""
    with tarfile.open(archive) as old, tarfile.open(folder / f"{name}.tar.gz", "w:gz", compresslevel=1) as new:
        for entry in old:
            content = old.extractfile(entry) if entry.isfile() else None
            entry.name = "/".join([name, *entry.name.split("/")[1:]])
            new.addfile(entry, content)


class GuideTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Sets up a host by following the guide up to the first job."""
        try:
            cls.tree = cls.enterClassContext(SystemdRoot(*PACKAGES))
        except LookupError as missing:
            raise unittest.SkipTest(f"{missing}; a bootable tree is made of installed packages")
        for each in (TOP / "dist").glob("dp-*-linux-x86_64.tar.gz*"):
            shutil.copy(each, cls.tree.path / "root")
        repack(next((TOP / "dist").glob("dp-*-linux-x86_64.tar.gz")), NEW, cls.tree.path / "root")
        cls.tree.start()
        # The guide's address of the coordinator's host, which is this host.
        cls.follow(["ip address add 10.0.0.1/24 dev lo"])
        for title in ("1. Unpack", "2. Close the port", "3. The coordinator", "4. A worker"):
            cls.follow(commands(title))
        cls.use, *cls.first_jobs = commands("5. A first job")

    @classmethod
    def follow(cls, lines):
        """Runs all lines in one shell, as a reader would type them. The first failure stops the
        shell."""
        text = "\n".join(line.replace("--nnodes 2", "--nnodes 1") for line in lines)
        done = cls.tree.run("bash", "-exc", f"cd /root\n{text}", check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout

    def test_it_leads_to_a_first_job(self):
        *more, training = self.first_jobs
        self.assertIn("fashion_mnist", training)  # its data set is not on this host
        said = self.follow([self.use, *more])
        self.assertRegex(said, "rank 1 of 2 on ")
        self.assertEqual(self.tree.shown("dp-coordinator", "StatusText"), "listening on 10.0.0.1:7070")

    def test_an_upgrade_leaves_a_running_job_alone_and_nothing_on_the_old_folder(self):
        unpack, units, coordinator, _, worker = commands("Upgrade")
        job = self.start_job()
        self.follow([unpack, units, coordinator])
        self.assertEqual(self.job(job), ("RUNNING", 1))
        self.tree.run("bash", "-c", "echo > /srv/go")
        self.assertEqual(self.follow([self.use, f"dpctl wait {job}"]), f"job {job} SUCCEEDED\n")
        node = self.tree.shown("dp-worker", "StatusText").removeprefix("registered as ")
        self.follow([self.use, worker.replace("ssh node1 ", "").replace("node1", node)])
        self.assertEqual({self.folder_of(unit) for unit in ("dp-coordinator", "dp-worker")}, {f"/opt/{NEW}/bin"})
        self.follow(["rm -r /opt/dp-[0-9]*", self.use, self.first_jobs[1]])

    def start_job(self):
        """Starts a job that runs until a line arrives; returns its id once it runs."""
        self.tree.run("mkfifo", "-m", "644", "/srv/go")
        self.tree.write("srv/waits.json", json.dumps({
            "apiVersion": "dp/v1", "kind": "Job", "name": "waits",
            "command": {"argv": ["sh", "-c", "read line < /srv/go"]}}))
        job = self.follow([self.use, "dpctl submit /srv/waits.json -o name"]).strip().split("/")[-1]
        self.assertTrue(eventually(lambda: self.job(job)[0] == "RUNNING"))
        return job

    def job(self, job):
        described = json.loads(self.follow([self.use, f"dpctl describe {job} -o json"]))
        return described["state"], described["generation"]

    def folder_of(self, unit):
        """The folder of the program that the unit runs."""
        program = self.tree.run("readlink", f"/proc/{self.tree.shown(unit, 'MainPID')}/exe").stdout
        return str(pathlib.Path(program.strip()).parent)


if __name__ == "__main__":
    unittest.main()
