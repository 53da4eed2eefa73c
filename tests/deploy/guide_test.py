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
PACKAGES = ("tar", "gzip", "sed", "findutils", "iproute2", "nftables", "openssl")
# The guide's name for the next release.
NEW = "dp-NEW-linux-x86_64"
REFUSED = 1  # a dpctl exit code


def setUpModule():
    reason = own_root.why_not()
    if reason:
        raise unittest.SkipTest(reason)


def section(title):
    """The text from the section's heading to the next heading of any level."""
    found = re.search(rf"^##+ {re.escape(title)}.*?(?=^##+ )", GUIDE, re.MULTILINE | re.DOTALL)
    return found.group(0)


def commands(title):
    """The commands with their prompts, in order; lines without a prompt are output."""
    blocks = re.findall(r"^ *```console\n(.*?)^ *```", section(title), re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if re.match(r"[#$] ", line)]


def repack(archive, name, folder):
    """Writes the tarball into the folder as another release's tarball."""
    with tarfile.open(archive) as old, tarfile.open(folder / f"{name}.tar.gz", "w:gz", compresslevel=1) as new:
        for entry in old:
            content = old.extractfile(entry) if entry.isfile() else None
            entry.name = "/".join([name, *entry.name.split("/")[1:]])
            new.addfile(entry, content)


class Host(unittest.TestCase):
    """A host that has followed the first two sections. It plays all hosts of the guide."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.tree = cls.enterClassContext(SystemdRoot(*PACKAGES))
        except LookupError as missing:
            raise unittest.SkipTest(f"{missing}; a bootable tree is made of installed packages")
        for each in (TOP / "dist").glob("dp-*-linux-x86_64.tar.gz*"):
            shutil.copy(each, cls.tree.path / "root")
        repack(next((TOP / "dist").glob("dp-*-linux-x86_64.tar.gz")), NEW, cls.tree.path / "root")
        cls.tree.start()
        # The guide's address of the coordinator's host, which is this host.
        cls.follow(["# ip address add 10.0.0.1/24 dev lo"])
        for title in ("1. Unpack", "2. Close the ports"):
            cls.follow(commands(title))

    @classmethod
    def follow(cls, lines, token="", check=True):
        """Runs all lines in one shell, as readers would type them. `#` is the prompt of root on the
        coordinator's host, who has exported what section 3 says. `$` is that of a person. Puts the
        token in its place. The first failure stops the shell. Returns the output."""
        [exported] = [line[2:] for line in commands("3. The coordinator") if line.startswith("# export ")]
        node = cls.tree.run("uname", "-n").stdout.strip()
        text = ["cd /root"]
        for line in lines:
            text.append(exported if line[0] == "#" else "unset DP_CREDENTIALS")
            text.append(line[2:].replace("--nnodes 2", "--nnodes 1").replace("TOKEN=TOKEN", f"TOKEN={token}")
                        .replace("<<< TOKEN", f"<<< {token}").replace("ssh node1 ", "").replace("node1", node))
        done = cls.tree.run("bash", "-exc", "\n".join(text), check=False)
        if check and done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout if check else done

    @classmethod
    def join(cls, lines):
        """Follows lines that start the worker with a token. The last of those that concern
        `join.env` removes it, once the worker has registered."""
        token = cls.follow(["# dpctl token --uses 1 -o name"]).strip()
        end = max(number for number, line in enumerate(lines) if "rm /etc/dp/join.env" in line)
        cls.follow(lines[:end], token)
        if not eventually(cls.registered):
            raise AssertionError(cls.tree.run("journalctl", "-u", "dp-worker").stdout)
        cls.follow(lines[end:])

    @classmethod
    def registered(cls):
        return cls.tree.shown("dp-worker", "StatusText").startswith("registered as ")

    @classmethod
    def log_in(cls):
        """Follows the section on people."""
        grant, *of_the_person = commands("5. People")
        [token] = re.findall(r"dpj1\.\S+", cls.follow([grant]))
        return cls.follow(of_the_person, token)

    def start_job(self, prompt="$", flags=""):
        """Starts a job that runs until finish(); returns its id once it runs."""
        self.tree.run("bash", "-c", "test -p /srv/go || mkfifo -m 644 /srv/go")
        self.tree.run("bash", "-c", "cat > /srv/waits.json <<< '" + json.dumps({
            "apiVersion": "dp/v1", "kind": "Job", "name": "waits",
            "command": {"argv": ["sh", "-c", "read line < /srv/go"]}}) + "'")
        submit = f"{prompt} dpctl --coordinator 10.0.0.1:7070 {flags} submit /srv/waits.json -o name"
        job = self.follow([submit]).strip().split("/")[-1]
        self.assertTrue(eventually(lambda: self.job(job)[0] == "RUNNING"))
        return job

    def finish(self, job):
        self.tree.run("bash", "-c", "echo > /srv/go")
        self.assertEqual(self.follow([f"# dpctl wait {job}"]), f"job {job} SUCCEEDED\n")

    def job(self, job):
        described = json.loads(self.follow([f"# dpctl describe {job} -o json"]))
        return described["state"], described["generation"]

    def workers(self):
        listed = json.loads(self.follow(["# dpctl workers -o json"]))["items"]
        return {each["name"]: each["state"] for each in listed}


class GuideTest(Host):
    @classmethod
    def setUpClass(cls):
        """Sets up a host by following the guide up to the first job."""
        super().setUpClass()
        cls.follow(commands("3. The coordinator"))
        cls.join(commands("4. A worker")[1:])
        cls.said_to_ann = cls.log_in()
        cls.use = commands("5. People")[1]
        cls.first_jobs = commands("6. A first job")

    def test_it_leads_to_a_first_job(self):
        *more, training = self.first_jobs
        self.assertIn("fashion_mnist", training)  # its data set is not on this host
        said = self.follow([self.use, *more])
        self.assertRegex(said, "rank 1 of 2 on ")
        self.assertEqual(self.tree.shown("dp-coordinator", "StatusText"), "listening on 10.0.0.1:7070")

    def test_a_person_who_has_logged_in_is_a_user(self):
        self.assertIn("logged in to 10.0.0.1:7070 as user ann", self.said_to_ann)
        self.assertRegex(self.said_to_ann, r"(?m)^user ann, with a certificate until ")
        self.assertEqual(self.follow([self.use, "$ dpctl token"], check=False).returncode, 1)

    def test_an_upgrade_leaves_a_running_job_alone_and_nothing_on_the_old_folder(self):
        unpack, units, coordinator, _, worker = commands("Upgrade")
        job = self.start_job()
        self.follow([unpack, units, coordinator])
        self.assertEqual(self.job(job), ("RUNNING", 1))
        self.finish(job)
        self.follow([worker])
        self.assertEqual({self.folder_of(unit) for unit in ("dp-coordinator", "dp-worker")}, {f"/opt/{NEW}/bin"})
        self.follow(["# rm -r /opt/dp-[0-9]*", self.use, self.first_jobs[1]])

    def folder_of(self, unit):
        """The folder of the program that the unit runs."""
        program = self.tree.run("readlink", f"/proc/{self.tree.shown(unit, 'MainPID')}/exe").stdout
        return str(pathlib.Path(program.strip()).parent)

    def test_a_lost_laptop_gets_nowhere_until_its_owner_logs_in_again(self):
        person, _, audit, *_ = commands("Access that must end")
        self.follow([person])
        refused = self.follow([self.use, "$ dpctl ps"], check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("was revoked", refused.stderr)
        self.assertRegex(self.follow([audit]), r"admin admin +revoked +access +user ann")
        self.log_in()
        self.follow([self.use, "$ dpctl ps"])

    def test_a_stolen_credential_of_the_first_administrator_is_replaced(self):
        revoke, restart = commands("Access that must end")[-2:]
        self.follow([revoke])
        self.assertEqual(self.follow(["# dpctl whoami"], check=False).returncode, 1)
        self.assertRegex(self.follow([restart, "# dpctl whoami"]), "^admin admin, ")

    def test_new_keys_do_not_stop_jobs_and_the_old_ones_count_no_more_at_the_end(self):
        make, trust, *exchange = commands("New keys")[:-3]
        job = self.start_job()
        self.follow([make, trust, *exchange])
        self.assertTrue(eventually(lambda: set(self.workers().values()) == {"READY"}))
        self.assertEqual(self.job(job), ("RUNNING", 1))
        self.finish(job)
        self.join_again()
        self.log_in()
        self.follow(["# sed -i /--client-ca/d /etc/dp/coordinator.env", "# systemctl restart dp-coordinator",
                     self.use, self.first_jobs[1]])

    def test_after_keys_were_stolen_everybody_joins_anew(self):
        self.follow(commands("New keys")[-3:])
        lost = self.follow([self.use, "$ dpctl ps"], check=False)
        self.assertEqual(lost.returncode, REFUSED)
        self.join_again()
        self.log_in()
        self.follow([self.use, self.first_jobs[1]])

    def join_again(self):
        """Joins under the same name, with a new token."""
        write, remove = [line for line in commands("4. A worker") if "/etc/dp/join.env" in line]
        self.join(["# echo 'DP_WORKER_OPTIONS=--slots 4 --name node1' >> /etc/dp/worker.env", write,
                   "# systemctl restart dp-worker", remove])
        self.assertEqual(set(self.workers().values()), {"READY"})


class PlainTextTest(Host):
    """A cluster of a release without TLS: its programs call in plain text."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        listen, start, *_ = commands("3. The coordinator")
        cls.follow(["# sed -i 's| --listen | --insecure&|' /etc/systemd/system/dp-coordinator.service",
                    "# sed -i '/^User=/iEnvironment=DP_INSECURE=1' /etc/systemd/system/dp-worker.service",
                    "# echo DP_COORDINATOR=10.0.0.1:7070 >> /etc/dp/worker.env",
                    "# systemctl daemon-reload", listen, start, "# systemctl enable --now dp-worker"])
        if not eventually(cls.registered):
            raise AssertionError(cls.tree.run("journalctl", "-u", "dp-worker").stdout)

    def test_it_upgrades_step_by_step_while_jobs_run(self):
        unpack, units, _, _, _ = commands("Upgrade")
        steps = commands("From a release without TLS")
        drain = next(number for number, line in enumerate(steps) if "dpctl drain" in line)
        first, worker, last = steps[:drain], steps[drain:-2], steps[-2:]
        [name] = self.workers()
        job = self.start_job(flags="--insecure")
        self.follow([unpack, units, *first])
        self.assertTrue(eventually(lambda: self.workers() == {name: "READY"}))
        self.assertEqual(self.job(job), ("RUNNING", 1))
        self.finish(job)
        self.join(worker)
        self.assertEqual(self.workers(), {name: "READY"})
        self.log_in()
        job = self.start_job()
        self.follow(last)
        self.assertTrue(eventually(lambda: self.workers() == {name: "READY"}))
        self.assertEqual(self.job(job), ("RUNNING", 1))
        self.finish(job)
        plain = self.follow(["$ dpctl --coordinator 10.0.0.1:7070 --insecure ps"], check=False)
        self.assertEqual(plain.returncode, REFUSED)


def load_tests(loader, _, pattern):
    """Host itself is no test case."""
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in (GuideTest, PlainTextTest))


if __name__ == "__main__":
    unittest.main()
