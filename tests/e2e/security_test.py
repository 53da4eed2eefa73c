"""Drills with what somebody has stolen: a laptop, tokens, a rank's credential, an administrator's."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

from kit import hosts
from kit.cluster import BIN, TIMEOUT_S, Cluster, eventually
from kit.laptops import Laptop, dpctl_with, grant, token_in

REFUSED = 1  # a dpctl exit code


def waiting_job(cluster, name="waits"):
    """A command job of one rank. It prints where its credential is, and runs until `finish`."""
    pipe = cluster.dir / f"{name}.pipe"
    os.mkfifo(pipe)
    return {"apiVersion": "dp/v1", "kind": "Job", "name": name,
            "command": {"argv": ["sh", "-c", f"echo credential $DP_CREDENTIALS; read line < {pipe}"],
                        "workingDir": "/"}}


def finish(cluster, job, name="waits"):
    (cluster.dir / f"{name}.pipe").write_text("\n")
    assert cluster.wait(job) == 0


def running(cluster, job, generation=1):
    found = cluster.describe(job)
    return found["state"] == "RUNNING" and found["generation"] == generation


def changed(token):
    """The same but for one character of its code."""
    return token[:-2] + ("B" if token[-2] == "A" else "A") + token[-1]


class Drill(unittest.TestCase):
    def assert_refused(self, done, why):
        self.assertEqual(done.returncode, REFUSED, done.stdout + done.stderr)
        self.assertRegex(done.stderr, why)

    def start(self, cluster, name="waits"):
        job = cluster.submit(waiting_job(cluster, name))
        self.assertTrue(eventually(lambda: running(cluster, job)))
        return job


class LostLaptopTest(Drill):
    def test_revoking_its_owner_ends_what_is_open_and_rejects_everything_else(self):
        with Cluster() as cluster:
            cluster.worker(name="node1")
            lost = Laptop(cluster, "ann")
            path = cluster.dir / "job.json"
            path.write_text(json.dumps(waiting_job(cluster)))
            job = lost.dpctl("submit", path, "-o", "name", check=0).stdout.strip().split("/")[-1]
            cluster.follow_until(job, "credential")
            with lost.follow(job) as follower:
                self.assertIn("credential", follower.stdout.readline())
                cluster.dpctl("revoke", "ann", check=0)
                _, said = follower.communicate(timeout=TIMEOUT_S)
            self.assertEqual(follower.returncode, REFUSED)
            self.assertIn("the certificate of user ann was revoked", said)
            for call in (["ps"], ["whoami"], ["workers"], ["events"], ["describe", job], ["logs", job],
                         ["store", "ls", job], ["cancel", job], ["hold", job], ["submit", path],
                         ["checkpoints", job], ["requeue", job], ["rm", job], ["token"]):
                self.assert_refused(lost.dpctl(*call), "was revoked")
            self.assertEqual(cluster.describe(job)["state"], "RUNNING")
            new = Laptop(cluster, "ann")
            self.assertIn(job, new.dpctl("ps", "-o", "name", check=0).stdout)
            self.assert_refused(lost.dpctl("ps"), "was revoked")
            finish(cluster, job)


class StolenJoinTokenTest(Drill):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())

    def log_in(self, token):
        env = {"XDG_CONFIG_HOME": str(self.cluster.dir / "thief")}
        return dpctl_with(self.cluster, env, "login", stdin=token)

    def join(self, token, name):
        """The reason why a daemon does not get in."""
        daemon = self.cluster.worker_in_background(name=name, options=("--join", token))
        return daemon.process.wait(TIMEOUT_S), daemon.log()

    def test_a_persons_token_counts_once(self):
        token = grant(self.cluster, "user", "ann")
        ann = Laptop(self.cluster, "ann", token=token)
        self.assert_refused(self.log_in(token), "was used")
        ann.dpctl("ps", check=0)

    def test_a_daemon_does_not_use_up_a_persons_token(self):
        token = grant(self.cluster, "user", "ann")
        code, log = self.join(token, "node7")
        self.assertEqual(code, 1, log)
        self.assertRegex(log, "the token is for user ann, who logs in with it")
        self.assertFalse((self.cluster.dir / "state-node7").exists())
        self.assertEqual(self.log_in(token).returncode, 0)

    def test_a_token_that_cannot_be_read_ends_a_daemon_of_a_former_cluster(self):
        with Cluster() as former:
            former.worker(name="node7").stop()
            shutil.move(former.dir / "state-node7", self.cluster.dir)
        code, log = self.join("junk", "node7")
        self.assertEqual(code, 1, log)
        self.assertRegex(log, "'junk...' is no join token")

    def test_an_expired_token_counts_no_more(self):
        token = token_in(self.cluster.dpctl("token", "user", "ann", "--valid-for", "1ms", check=0).stdout)
        self.assert_refused(self.log_in(token), "expired")

    def test_a_token_in_the_name_of_somebody_revoked_is_void(self):
        token = grant(self.cluster, "user", "ann")
        self.cluster.dpctl("revoke", "ann", check=0)
        self.assert_refused(self.log_in(token), "revoked")

    def test_a_changed_token_makes_nobody_an_administrator(self):
        purpose, claims, mac = grant(self.cluster, "user", "ann").split(".")
        other = grant(self.cluster, "admin", "eve").split(".")[1]
        for token in (f"{purpose}.{other}.{mac}", changed(f"{purpose}.{claims}.{mac}")):
            self.assert_refused(self.log_in(token), "not given out")

    def test_a_workers_token_is_for_its_name_and_its_uses(self):
        token = token_in(self.cluster.dpctl("token", "worker", "node7", "--uses", 1, check=0).stdout)
        code, log = self.join(token, "node8")
        self.assertNotEqual(code, 0)
        self.assertRegex(log, "node7")
        self.assertFalse((self.cluster.dir / "state-node8").exists())
        self.cluster.worker(name="node7", options=("--join", token)).stop()
        shutil.rmtree(self.cluster.dir / "state-node7")
        code, log = self.join(token, "node7")
        self.assertNotEqual(code, 0)
        self.assertRegex(log, "was used")

    def test_daemons_that_all_lost_their_state_are_back_under_their_names_once_their_leases_end(self):
        names = ("node7", "node8")
        lost = [self.cluster.worker(name=name) for name in names]
        for name, daemon in zip(names, lost):
            daemon.kill()
            shutil.rmtree(self.cluster.dir / f"state-{name}")
        token = token_in(self.cluster.dpctl("token", check=0).stdout)
        for name in names:
            self.cluster.worker(name=name, options=("--join", token))
        self.assertEqual(self.cluster.dpctl("workers", check=0).stdout.count("READY"), 2)

    def test_a_line_break_behind_a_token_does_no_harm(self):
        for name, how in (("node7", lambda token: {"options": ("--join", token)}),
                          ("node8", lambda token: {"env": {"DP_JOIN_TOKEN": token}})):
            token = token_in(self.cluster.dpctl("token", "worker", name, "--uses", 1, check=0).stdout)
            self.cluster.worker(name=name, **how(f"{token}\n")).stop()
            _, log = self.join(token, f"{name}-again")
            self.assertRegex(log, name)
        self.assertEqual(self.log_in(grant(self.cluster, "user", "ann") + "\n").returncode, 0)

    def test_no_list_of_processes_shows_a_login_token(self):
        token = grant(self.cluster, "user", "ann")
        for flag in (["--token", token], [f"--token={token}"]):
            with socket.create_server(("127.0.0.1", 0)) as silent:
                silent.settimeout(TIMEOUT_S)
                address = "{}:{}".format(*silent.getsockname())
                with subprocess.Popen([BIN / "dpctl", "--coordinator", address, "login", *flag],
                                      stderr=subprocess.DEVNULL) as dpctl:
                    silent.accept()[0].close()  # it uses the token from here on
                    line = pathlib.Path(f"/proc/{dpctl.pid}/cmdline").read_bytes()
                    dpctl.kill()
            self.assertIn(b"--token", line)
            self.assertNotIn(token.encode(), line)

    def test_a_revoked_workers_token_is_void_and_its_daemon_is_out(self):
        token = token_in(self.cluster.dpctl("token", "worker", "node7", check=0).stdout)
        daemon = self.cluster.worker(name="node7", options=("--join", token))
        self.cluster.dpctl("revoke", "worker/node7", check=0)
        self.assertTrue(eventually(lambda: "was revoked" in daemon.log()), daemon.log())
        self.assertTrue(eventually(lambda: "READY" not in self.cluster.dpctl("workers").stdout))
        daemon.kill()
        shutil.rmtree(self.cluster.dir / "state-node7")
        code, log = self.join(token, "node7")
        self.assertNotEqual(code, 0)
        self.assertRegex(log, "revoked")


class StolenRankTokenTest(Drill):
    """The thief has copied the directory that DP_CREDENTIALS names."""

    def steal(self, cluster, job):
        line = cluster.follow_until(job, "credential ")
        copy = cluster.dir / f"stolen-{job}"
        shutil.copytree(re.search(r"credential (\S+)", line).group(1), copy)
        return copy

    def assert_only_a_rank(self, dpctl, job, other):
        """dpctl's commands for people are nothing for ranks. What a rank itself may call ends with
        its generation, as server/rpc/identification_test.cc has it."""
        self.assertRegex(dpctl("whoami").stdout, f"rank 0 of job {job}")
        for call in (["ps"], ["logs", job], ["cancel", job], ["store", "ls", job], ["store", "ls", other],
                     ["workers"], ["events"], ["audit"], ["grant", "admin", "eve"], ["token"],
                     ["revoke", "admin"], ["drain", "node1", "--reason", "theft"]):
            self.assert_refused(dpctl(*call), f"rank 0 of job {job} may not call")

    def test_it_is_a_rank_and_nobody_else(self):
        with Cluster() as cluster:
            cluster.worker(slots=2, name="node1")
            job, other = self.start(cluster), self.start(cluster, "other")
            stolen = self.steal(cluster, job)
            self.assert_only_a_rank(lambda *call: cluster.dpctl("--credentials", stolen, *call), job, other)
            (stolen / "token").write_text(changed((stolen / "token").read_text().strip()))
            self.assert_refused(cluster.dpctl("--credentials", stolen, "whoami"), "not given out")
            finish(cluster, job)
            finish(cluster, other, "other")

    @unittest.skipIf(hosts.why_not(), hosts.why_not())
    def test_it_is_no_more_on_another_host(self):
        with hosts.Hosts(2) as both, ClusterOnHost(both) as cluster:
            cluster.worker(slots=2, name="node1", prefix=both.prefix(0))
            job, other = self.start(cluster), self.start(cluster, "other")
            stolen = self.steal(cluster, job)
            self.assert_only_a_rank(lambda *call: cluster.dpctl_from(1, "--credentials", stolen, *call), job, other)
            finish(cluster, job)
            finish(cluster, other, "other")


class ClusterOnHost(Cluster):
    """A coordinator on host 0 of `hosts`."""

    def __init__(self, hosts):
        self.hosts = hosts
        super().__init__()

    def start_coordinator(self, listen, **how):
        address = f"{self.hosts.address(0)}:{listen.split(':')[-1]}"
        return super().start_coordinator(address, prefix=self.hosts.prefix(0))

    def dpctl_command(self):
        return [*self.hosts.prefix(0), *super().dpctl_command()]

    def dpctl_from(self, host, *args):
        before = len(self.hosts.prefix(0))
        command = [*self.hosts.prefix(host), *self.dpctl_command()[before:], *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


class StolenAdministratorTest(Drill):
    def test_its_credential_is_void_after_a_revocation_also_when_the_coordinator_has_started_again(self):
        with Cluster() as cluster:
            stolen = cluster.dir / "stolen-admin"
            shutil.copytree(cluster.dir / "coordinator/identity/admin", stolen)
            cluster.dpctl("--credentials", stolen, "grant", "admin", "eve", check=0)
            eve = Laptop(cluster, "eve", "admin")
            cluster.dpctl("revoke", "admin", check=0)
            for credential in ([], ["--credentials", stolen]):
                self.assert_refused(cluster.dpctl(*credential, "ps"), "admin admin was revoked")
            cluster.restart_coordinator()
            cluster.dpctl("ps", check=0)
            self.assert_refused(cluster.dpctl("--credentials", stolen, "ps"), "admin admin was revoked")
            # Whom the thief has let in is still there, and listed.
            eve.dpctl("ps", check=0)
            self.assertRegex(cluster.dpctl("audit", check=0).stdout, "granted .*eve")
            cluster.dpctl("revoke", "eve", check=0)
            self.assert_refused(eve.dpctl("ps"), "admin eve was revoked")


if __name__ == "__main__":
    unittest.main()
