"""Follows docs/security.md: "Backup", "Replace the authority" and "From a cluster without TLS". The
commands come from the page; a test names each by the words that the page has."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from e2e.security_test import REFUSED, finish, running, waiting_job
from kit.cluster import BIN, TIMEOUT_S, Cluster, eventually
from kit.laptops import Laptop, token_in

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs/security.md").read_text()
REFUSED = 1  # a dpctl exit code


def section(title):
    """From the heading to the next one."""
    return re.search(rf"^##+ {re.escape(title)}$.*?(?=^##+ |\Z)", PAGE, re.M | re.S).group(0)


class Guide(unittest.TestCase):
    TITLE = ""

    def setUp(self):
        self.text = " ".join(section(self.TITLE).split())

    def says(self, *words):
        for each in words:
            self.assertIn(each, self.text)

    def follow(self, cluster, command, check=0):
        """Runs a dpctl command of the page."""
        self.says(command)
        program, *words = command.split()
        self.assertEqual(program, "dpctl")
        return cluster.dpctl(*words, check=check)

    def start(self, cluster, name="waits"):
        job = cluster.submit(waiting_job(cluster, name))
        self.assertTrue(eventually(lambda: running(cluster, job)))
        return job

    def start_failure(self, cluster):
        """Why the coordinator does not start."""
        program = cluster.start_coordinator(cluster.address, wait=False)
        self.assertNotEqual(program.process.wait(TIMEOUT_S), 0)
        return program.log()

    def start_again(self, cluster):
        cluster.coordinator = cluster.start_coordinator(cluster.address)

    def ready(self, cluster, *names):
        return cluster_states(cluster) == {name: "READY" for name in names}


def cluster_states(cluster):
    listed = json.loads(cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
    return {each["name"]: each["state"] for each in listed}


class BackupTest(Guide):
    TITLE = "Backup"

    def setUp(self):
        super().setUp()
        self.cluster = self.enterContext(Cluster())
        self.identity = self.cluster.dir / "coordinator/identity"

    def back_up(self):
        copy = self.cluster.dir / "backup"
        shutil.copytree(self.cluster.dir / "coordinator", copy)
        return copy

    def restore(self, copy):
        shutil.rmtree(self.cluster.dir / "coordinator")
        shutil.copytree(copy, self.cluster.dir / "coordinator")

    def test_a_missing_or_damaged_key_of_the_authority_is_named_and_the_backup_has_it(self):
        self.says("the coordinator refuses to start, and names the file")
        ann = Laptop(self.cluster, "ann")
        self.cluster.coordinator.stop()
        copy = self.back_up()
        for name in ("ca.crt", "ca.key", "token.key"):
            self.says(f"`{name}`")
            for content in (None, b"damaged"):
                (self.identity / name).unlink()
                if content:
                    (self.identity / name).write_bytes(content)
                self.assertIn(str(self.identity / name), self.start_failure(self.cluster))
                shutil.copy(copy / "identity" / name, self.identity / name)
        self.start_again(self.cluster)
        ann.dpctl("ps", check=0)

    def test_what_the_coordinator_can_make_again_it_makes(self):
        self.says("`server/`, `admin/` | the coordinator makes them again")
        ann = Laptop(self.cluster, "ann")
        for damage in (shutil.rmtree, lambda path: (path / "tls.crt").write_text("damaged")):
            self.cluster.coordinator.stop()
            for name in ("server", "admin"):
                damage(self.identity / name)
            self.start_again(self.cluster)
            ann.dpctl("ps", check=0)
            self.assertRegex(self.cluster.dpctl("whoami", check=0).stdout, "^admin admin")

    def test_whom_an_older_journal_lets_in_again_is_revoked_again(self):
        self.says("Revoke again whom you have revoked since")
        ann = Laptop(self.cluster, "ann")
        self.cluster.coordinator.stop()
        copy = self.back_up()
        self.start_again(self.cluster)
        self.cluster.dpctl("revoke", "ann", check=0)
        self.assertEqual(ann.dpctl("ps").returncode, REFUSED)
        self.cluster.coordinator.stop()
        self.restore(copy)
        self.start_again(self.cluster)
        ann.dpctl("ps", check=0)
        self.cluster.dpctl("revoke", "ann", check=0)
        self.assertEqual(ann.dpctl("ps").returncode, REFUSED)

    def test_a_lost_token_key_is_replaced_by_random_bytes(self):
        self.says("make 32 random bytes in its place (`head -c 32 /dev/urandom`), with mode 0600",
                  "Unused join tokens are void then", "`dpctl requeue` gives them new tokens")
        self.cluster.worker(name="node1")
        job = self.start(self.cluster)
        credential = re.search(r"credential (\S+)", self.cluster.follow_until(job, "credential ")).group(1)
        unused = token_in(self.cluster.dpctl("token", "user", "bob", check=0).stdout)
        self.cluster.coordinator.stop()
        key = self.identity / "token.key"
        key.unlink()
        old_mask = os.umask(0o177)
        try:
            with open(key, "wb") as file:
                subprocess.run(["head", "-c", "32", "/dev/urandom"], stdout=file, check=True)
        finally:
            os.umask(old_mask)
        self.start_again(self.cluster)
        with self.assertRaisesRegex(AssertionError, "not given out by this coordinator"):
            Laptop(self.cluster, "bob", token=unused)
        old = self.cluster.dpctl("--credentials", credential, "whoami")
        self.assertIn("not given out by this coordinator", old.stderr)
        self.assertEqual(self.cluster.describe(job)["state"], "RUNNING")
        self.cluster.dpctl("requeue", job, check=0)
        self.assertTrue(eventually(lambda: running(self.cluster, job, generation=2)))
        again = pathlib.Path(credential.replace(f"/{job}/1/", f"/{job}/2/"))
        self.assertTrue(eventually(again.exists))
        self.cluster.dpctl("--credentials", again, "whoami", check=0)
        finish(self.cluster, job)

    def test_after_ca_key_was_stolen_nothing_of_the_old_authority_counts(self):
        self.says("Stop the coordinator, remove `DIR/identity`, and start it without `--client-ca`",
                  "Workers join again with `--join`, and people log in again")
        daemon = self.cluster.worker(name="node1")
        ann = Laptop(self.cluster, "ann")
        stolen = self.cluster.dir / "stolen"
        shutil.copytree(self.identity / "admin", stolen)
        self.cluster.coordinator.stop()
        shutil.rmtree(self.identity)
        self.start_again(self.cluster)
        self.assertEqual(self.cluster.dpctl("--credentials", stolen, "ps").returncode, REFUSED)
        self.assertEqual(ann.dpctl("ps").returncode, REFUSED)
        daemon.kill()
        token = token_in(self.cluster.dpctl("token", check=0).stdout)
        self.cluster.worker(name="node1", options=("--join", token))
        self.assertTrue(eventually(lambda: self.ready(self.cluster, "node1")))
        Laptop(self.cluster, "ann").dpctl("ps", check=0)


class ReplaceTheAuthorityTest(Guide):
    TITLE = "Replace the authority"

    def make_authority(self, cluster):
        [block] = re.findall(r"^ *```\n(.*?)^ *```", section(self.TITLE), re.M | re.S)
        subprocess.run(["sh", "-exc", block], cwd=cluster.dir, check=True, capture_output=True)
        return cluster.dir / "new-ca.crt", cluster.dir / "new-ca.key"

    def test_a_running_job_goes_on_and_the_old_authority_counts_no_more_at_the_end(self):
        # The lease outlasts the ten seconds that the page waits for.
        with Cluster(lease="60s") as cluster:
            identity = cluster.dir / "coordinator/identity"
            daemon = cluster.worker(name="node1")
            ann = Laptop(cluster, "ann")
            old = Laptop(cluster, "old")
            job = self.start(cluster)
            certificate, key = self.make_authority(cluster)
            self.says("Append `new-ca.crt` to the `ca.crt` of each credential",
                      "`STATE_DIR/spool/*/*/*.credential` of running ranks")
            state = cluster.dir / "state-node1"
            trusting = [state / "credential", ann.login_dir(), old.login_dir(),
                        *state.glob("spool/*/*/*.credential")]
            self.assertEqual(len(trusting), 4)
            for credential in trusting:
                with open(credential / "ca.crt", "a") as file:
                    file.write(certificate.read_text())
            self.says("Keep a copy of the old `ca.crt`", "Leave `token.key` there",
                      "with the old owner and mode 0600", "Start the coordinator with `--client-ca old-ca.crt`")
            cluster.coordinator.stop()
            shutil.copy(identity / "ca.crt", cluster.dir / "old-ca.crt")
            for new, name in ((certificate, "ca.crt"), (key, "ca.key")):
                (identity / name).write_bytes(new.read_bytes())
            cluster.set_coordinator_option("client_ca", cluster.dir / "old-ca.crt")
            self.start_again(cluster)
            self.assertTrue(eventually(lambda: self.ready(cluster, "node1")))
            rank = next(state.glob("spool/*/*/*.credential"))
            self.assertIn("rank 0", cluster.dpctl("--credentials", rank, "whoami", check=0).stdout)
            ann.dpctl("ps", check=0)
            self.assertTrue(running(cluster, job))
            finish(cluster, job)
            cluster.dpctl("drain", "node1", "--reason", "new authority", check=0)
            daemon.stop()
            self.says("dpctl token worker NAME --uses 1")
            token = token_in(cluster.dpctl("token", "worker", "node1", "--uses", 1, check=0).stdout)
            cluster.worker(name="node1", options=("--join", token))
            cluster.dpctl("undrain", "node1", check=0)
            ann.log_in(token_in(cluster.dpctl("grant", "user", "ann", check=0).stdout))
            last = self.start(cluster, "last")
            self.says("Start the coordinator without `--client-ca`. The old authority counts no more.")
            cluster.coordinator.stop()
            cluster.set_coordinator_option("client_ca", None)
            self.start_again(cluster)
            ann.dpctl("ps", check=0)
            self.assertEqual(old.dpctl("ps").returncode, REFUSED)
            self.assertTrue(eventually(lambda: self.ready(cluster, "node1")))
            self.assertTrue(running(cluster, last))
            finish(cluster, last, "last")


class FromAClusterWithoutTlsTest(Guide):
    TITLE = "From a cluster without TLS"

    def test_jobs_of_both_kinds_of_workers_run_through_every_step(self):
        with PlainCluster() as cluster:
            old = {name: cluster.worker(name=name, options=["--insecure"]) for name in ("node1", "node2")}
            first = self.start(cluster, "first")
            [at] = {rank["worker"] for rank in cluster.describe(first)["ranks"]}
            [free] = set(old) - {at}
            self.says("Upgrade the coordinator and start it with `--insecure`")
            cluster.restart_coordinator()
            self.assertTrue(eventually(lambda: self.ready(cluster, "node1", "node2")))
            self.assertTrue(running(cluster, first))
            cluster.plain = False  # dpctl finds the administrator of this machine
            token = token_in(self.follow(cluster, "dpctl token --valid-for 168h").stdout)
            self.move(cluster, old[free], free, token)
            person = Laptop(cluster, "ann", token=token_in(self.follow(cluster, "dpctl grant user ann").stdout))
            self.says("Wait until jobs have ended that earlier daemons started", "a submission without `by`")
            events = cluster.dpctl("events", check=0).stdout
            self.assertRegex(events, r"(?m)submitted(?!.* by ).*$")
            second = self.start(cluster, "second")
            self.assertEqual({rank["worker"] for rank in cluster.describe(second)["ranks"]}, {free})
            self.assertTrue(running(cluster, first))
            finish(cluster, first, "first")
            self.move(cluster, old[at], at, token)
            self.says("Start the coordinator without `--insecure`. Jobs go on meanwhile.")
            cluster.insecure = False
            cluster.restart_coordinator()
            self.assertTrue(eventually(lambda: self.ready(cluster, "node1", "node2")))
            self.assertTrue(running(cluster, second))
            finish(cluster, second, "second")
            person.dpctl("ps", check=0)
            self.assertEqual(cluster.dpctl("--insecure", "ps").returncode, REFUSED)

    def move(self, cluster, daemon, name, token):
        self.says("Drain the worker, stop its daemon, upgrade, start it with `--join TOKEN` and its "
                  "former name as `--name`, and end the drain")
        cluster.dpctl("drain", name, "--reason", "upgrade", check=0)
        daemon.stop()
        cluster.worker(name=name, options=("--join", token))
        cluster.dpctl("undrain", name, check=0)
        self.assertTrue(eventually(lambda: cluster_states(cluster).get(name) == "READY"))


class PlainCluster(Cluster):
    """Like a cluster of a release without TLS, as long as it is `plain`: dpctl calls in plain
    text, too."""

    def __init__(self):
        self.plain = self.insecure = True
        super().__init__()

    def start_coordinator(self, listen, **how):
        return self.program(BIN / "dp-coordinator", *(["--insecure"] if self.insecure else []),
                            "--listen", listen, "--data-dir", self.dir / "coordinator", **how)

    def dpctl_command(self):
        return [*super().dpctl_command(), *(["--insecure"] if self.plain else [])]


def load_tests(loader, _, pattern):
    """Guide itself is no test case."""
    cases = (BackupTest, ReplaceTheAuthorityTest, FromAClusterWithoutTlsTest)
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)


if __name__ == "__main__":
    unittest.main()
