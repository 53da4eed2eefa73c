"""dp under a real systemd, which is process 1 of a root tree of the test's own (systemd_root.py).

The tree holds the files of systemd's packages and the files that `make install` installs. All
tests share the tree. Each test leaves both services running.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

import own_root  # noqa: E402
from kit.cluster import BIN, eventually  # noqa: E402
from kit.idx_data import train_job, write_idx  # noqa: E402
from systemd_root import SystemdRoot  # noqa: E402

# The install prefix, for programs and settings. systemd searches no other prefix.
PREFIX = re.search(r"^CMAKE_INSTALL_PREFIX:PATH=(.*)$", (BIN.parent / "CMakeCache.txt").read_text(),
                   re.MULTILINE).group(1)


RULES = "usr/local/etc/dp/dp.nft"
JOIN = "/usr/local/etc/dp/join.env"
ADMIN = "/var/lib/dp-coordinator/identity/admin"
REFUSED = 1  # a dpctl exit code


def install(root):
    subprocess.run(["cmake", "--install", BIN.parent, "--strip"], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": str(root.path)})
    root.add_libraries_of(sorted((root.path / "usr/local/bin").iterdir()))


def setUpModule():
    global ROOT
    reason = own_root.why_not()
    if PREFIX != "/usr/local":
        reason = f"the build folder is set up for {PREFIX}, by `make install PREFIX=`"
    if reason:
        raise unittest.SkipTest(reason)
    try:
        ROOT = SystemdRoot("nftables", "iproute2")
    except LookupError as missing:
        raise unittest.SkipTest(f"{missing}; a bootable tree is made of installed packages")
    unittest.addModuleCleanup(ROOT.close)
    install(ROOT)
    write_idx(ROOT.path / "srv/data")
    # Listens beyond loopback, like a coordinator on a real host.
    ROOT.write("usr/local/etc/dp/coordinator.env", "DP_LISTEN=0.0.0.0:7070\n")
    ROOT.write("usr/local/etc/dp/worker.env", "DP_WORKER_OPTIONS=--name w --slots 2\n")
    # The leak check of the address sanitizer needs ptrace, which the hardening denies. Without this
    # line the programs would exit with the leak check's status.
    ROOT.write("etc/systemd/system.conf.d/leaks.conf",
               "[Manager]\nDefaultEnvironment=ASAN_OPTIONS=detect_leaks=0\n")
    # The rules of a host that was set up before this boot. No test connects from beyond loopback.
    ROOT.write(RULES, (TOP / "deploy/systemd/dp.nft").read_text())
    for unit in ("dp-coordinator", "dp-worker"):
        wanted = ROOT.path / f"etc/systemd/system/multi-user.target.wants/{unit}.service"
        wanted.parent.mkdir(parents=True, exist_ok=True)
        wanted.symlink_to(f"/usr/local/lib/systemd/system/{unit}.service")
    ROOT.start()
    join()


def join():
    """Joins the worker as the guide does, with a token that is removed afterwards."""
    token = dpctl("token", "--uses", "1", "-o", "name").stdout.strip()
    shell(f"umask 077; echo DP_JOIN_TOKEN={token} > {JOIN}; systemctl restart dp-worker")
    if not eventually(serving):
        raise AssertionError(f"the worker did not join:\n{shell('journalctl -u dp-worker')}")
    shell(f"rm {JOIN}; systemctl restart dp-worker")


def shown(unit, name):
    return ROOT.shown(unit, name)


def dpctl(*words, check=True, credentials=ADMIN):
    """Runs dpctl as root, who may read the coordinator's credential of an administrator."""
    return ROOT.run("/usr/local/bin/dpctl", *words, check=check,
                    environment={"DP_CREDENTIALS": credentials, "DP_ACCEPT_OTHER_USERS": "1"})


def worker_state():
    listed = json.loads(dpctl("workers", "-o", "json", check=False).stdout or "{}")
    return [each["state"] for each in listed.get("items", []) if each["name"] == "w"]


def serving():
    """Whether the running daemon is the one that the coordinator counts on."""
    return shown("dp-worker", "StatusText") == "registered as w" and worker_state() == ["READY"]


def shell(text):
    return ROOT.run("bash", "-c", text, check=False).stdout.strip()


class ServicesTest(unittest.TestCase):
    def setUp(self):
        self.assertTrue(eventually(serving), ROOT.console.read_text())

    def test_the_machine_came_up_without_a_failed_unit(self):
        failed = ROOT.run("systemctl", "--failed", "--no-legend", "--plain").stdout
        self.assertEqual(failed, "")

    def test_both_are_ready_and_say_what_they_are_doing(self):
        for unit in ("dp-coordinator", "dp-worker"):
            self.assertEqual(shown(unit, "ActiveState"), "active")
        self.assertEqual(shown("dp-coordinator", "StatusText"), "listening on 0.0.0.0:7070")
        self.assertEqual(shown("dp-worker", "StatusText"), "registered as w")

    def test_the_firewall_rules_are_there_after_a_boot(self):
        self.assertEqual(shown("nftables", "ActiveState"), "inactive")  # Debian's default
        self.assertRegex(shell("nft list table inet dp"), r"tcp dport \{ 7070, .*drop")

    def test_where_the_firewall_rules_cannot_be_loaded_nothing_starts(self):
        self.with_rules("no such line\n")
        for unit in ("dp-coordinator", "dp-worker"):
            done = ROOT.run("systemctl", "start", unit, check=False)
            self.assertIn(f"A dependency job for {unit}.service failed", done.stderr)
            self.assertEqual(shown(unit, "ActiveState"), "inactive")

    def test_new_firewall_rules_are_loaded_while_both_run_and_wrong_ones_change_nothing(self):
        path = ROOT.path / RULES
        before = path.read_text()
        self.addCleanup(self.load, before)
        processes = self.processes()
        self.assertEqual(self.load(before.replace("10.0.0.0/24", "10.0.0.0/24, 10.1.0.0/24")), 0)
        self.assertIn("10.1.0.0/24", shell("nft list set inet dp hosts"))
        self.assertNotEqual(self.load("no such line\n"), 0)
        self.assertIn("10.1.0.0/24", shell("nft list set inet dp hosts"))
        self.assertEqual(self.processes(), processes)

    def load(self, rules):
        """Replaces the host's rules, and returns the exit code of the guide's reload command."""
        ROOT.write(RULES, rules)
        return ROOT.run("systemctl", "reload-or-restart", "dp-firewall", check=False).returncode

    def processes(self):
        return [shown(unit, "MainPID") for unit in ("dp-coordinator", "dp-worker")]

    def test_a_host_without_firewall_rules_for_dp_starts_all_the_same(self):
        self.with_rules(None)
        ROOT.run("systemctl", "start", "dp-coordinator", "dp-worker")
        self.assertEqual(shown("dp-firewall", "ActiveState"), "inactive")
        self.assertTrue(eventually(serving))

    def test_each_runs_as_a_user_of_its_own_that_the_other_cannot_look_into(self):
        for unit in ("dp-coordinator", "dp-worker"):
            self.assertEqual(shell(f"stat -c '%U %a' /var/lib/{unit}"), f"{unit} 700")
            self.assertEqual(shell(f"ps -o user:32= -p {shown(unit, 'MainPID')}"), unit)

    def test_the_worker_keeps_its_certificate_and_no_token(self):
        self.assertEqual(shell("stat -c '%U %a' /var/lib/dp-worker/credential"), "dp-worker 700")
        self.assertEqual(shell("stat -c %a /var/lib/dp-worker/credential/tls.key"), "600")
        main = shown("dp-worker", "MainPID")
        self.assertIn("DP_COORDINATOR=", shell(f"tr '\\0' '\\n' < /proc/{main}/environ"))
        self.assertEqual(shell(f"grep -l dpj1 /proc/{main}/environ /proc/{main}/cmdline"), "")

    def test_a_worker_without_a_certificate_waits_and_says_what_it_needs(self):
        self.without_certificate()
        ROOT.run("systemctl", "start", "dp-worker")
        self.assertTrue(eventually(lambda: "event=coordinator_unreachable" in self.journal("dp-worker")))
        self.assertIn("no other credential", self.journal("dp-worker"))
        self.assertEqual(shown("dp-worker", "StatusText"), "waiting for the coordinator 127.0.0.1:7070")
        ROOT.run("systemctl", "stop", "dp-worker")
        self.assertEqual(shown("dp-worker", "Result"), "success")

    def test_a_worker_that_waits_for_a_certificate_does_not_count_as_hung(self):
        self.without_certificate()
        self.change("dp-worker", "WatchdogSec=1s")
        waiting = shown("dp-worker", "MainPID")
        for _ in range(4):  # more often than the watchdog allows a hung one
            alive = shown("dp-worker", "WatchdogTimestampMonotonic")
            self.assertTrue(eventually(lambda: shown("dp-worker", "WatchdogTimestampMonotonic") != alive))
        self.assertEqual(shown("dp-worker", "MainPID"), waiting)

    def without_certificate(self):
        """Stops the worker and takes its certificate away, for this test only."""
        ROOT.run("bash", "-c", "systemctl stop dp-worker; mv /var/lib/dp-worker/credential /root/")
        self.addCleanup(ROOT.run, "systemctl", "restart", "dp-worker")
        self.addCleanup(shell, "mv /root/credential /var/lib/dp-worker/")

    def test_the_journal_has_no_tokens(self):
        self.assertIn("event=listening", self.journal("dp-coordinator"))
        for unit in ("dp-coordinator", "dp-worker"):
            self.assertNotIn("dpj1.", self.journal(unit))

    def journal(self, unit):
        return shell(f"journalctl -o cat -u {unit}")

    def test_nobody_gets_in_without_a_credential_or_in_plain_text(self):
        shell(f"mkdir -p /root/stranger; cp {ADMIN}/ca.crt /root/stranger/")  # knows whom to trust
        stranger = dpctl("workers", check=False, credentials="/root/stranger")
        self.assertEqual(stranger.returncode, 1)
        self.assertIn("needs a credential", stranger.stderr)
        plain = dpctl("--insecure", "workers", check=False)
        self.assertEqual(plain.returncode, REFUSED, plain.stdout + plain.stderr)

    def test_a_training_runs_under_the_hardening(self):
        job = json.dumps(train_job("/srv/data", name="train"))
        (ROOT.path / "srv/train.json").write_text(job)
        done = dpctl("run", "/srv/train.json", check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("test_accuracy=", done.stdout)

    def test_ranks_can_neither_read_the_registry_nor_write_the_system(self):
        done = dpctl("run", "--", "sh", "-c", "ls /var/lib/dp-coordinator; touch /usr/local/bin/x; "
                     "touch /etc/x; touch /root/x; ls -d /proc/1; id -un", check=False)
        text = done.stdout + done.stderr
        self.assertIn("dp-worker", done.stdout)
        for what in ("/var/lib/dp-coordinator", "/usr/local/bin/x", "/etc/x", "/root/x"):
            self.assertRegex(text, rf"'{what}'.*(denied|Read-only)")
        self.assertRegex(text, "'/proc/1'.*No such file")  # root's processes are hidden

    def test_a_killed_coordinator_comes_back_with_its_jobs(self):
        dpctl("run", "--name", "before", "--", "true")
        ROOT.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "dp-coordinator")
        self.assertTrue(eventually(lambda: dpctl("ps", "-a", check=False).returncode == 0))
        self.assertIn("before", dpctl("ps", "-a").stdout)
        self.assertGreaterEqual(int(shown("dp-coordinator", "NRestarts")), 1)

    def test_a_backup_is_a_registry_to_start_from(self):
        dpctl("run", "--name", "kept", "--", "echo", "what it wrote")
        self.while_stopped("cp -a /var/lib/dp-coordinator /root/backup")
        dpctl("run", "--name", "later", "--", "true")
        # The restored registry gives the numbers of lost jobs again. A daemon that keeps running
        # remembers its work for those jobs.
        ROOT.run("systemctl", "stop", "dp-worker")
        self.while_stopped("mv /var/lib/dp-coordinator /root/old && "
                           "cp -a /root/backup /var/lib/dp-coordinator")
        ROOT.run("systemctl", "start", "dp-worker")
        jobs = dpctl("ps", "-a").stdout
        self.assertIn("kept", jobs)
        self.assertNotIn("later", jobs)
        self.assertIn("what it wrote", dpctl("logs", "kept").stdout)
        dpctl("run", "--name", "next", "--", "true")

    def while_stopped(self, command):
        ROOT.run("systemctl", "stop", "dp-coordinator")
        ROOT.run("bash", "-c", command)
        ROOT.run("systemctl", "start", "dp-coordinator")

    def people(self, *names):
        """Gives each person an account of this host and a login of the cluster; returns the
        environments of their dpctl."""
        environments = {}
        for number, name in enumerate(names, 61001):
            shell(f"mkdir -m 700 -p /srv/{name}; chown {number}:{number} /srv/{name}")
            shell(f"echo {name}:x:{number}:{number}::/srv/{name}:/bin/sh >> /etc/passwd")
            shell(f"echo {name}:x:{number}: >> /etc/group")
            token = json.loads(dpctl("grant", "user", name, "-o", "json").stdout)["token"]
            environments[name] = {"XDG_CONFIG_HOME": f"/root/{name}"}
            ROOT.run("/usr/local/bin/dpctl", "login", "--token", token, environment=environments[name])
        return environments

    def test_with_the_drop_in_for_many_people_each_job_runs_as_its_owner(self):
        folder = "/etc/systemd/system/dp-worker.service.d"
        self.restart_with("dp-worker", f"install -Dm644 /usr/local/share/dp/systemd/dp-worker-users.conf {folder}/users.conf")
        self.addCleanup(self.restart_with, "dp-worker", f"rm -r {folder}")
        self.assertTrue(eventually(serving), self.journal("dp-worker"))
        logins = self.people("ann", "bob")
        output = {}
        for name, login in logins.items():
            done = ROOT.run("/usr/local/bin/dpctl", "run", "--", "sh", "-c",
                            f"id -un; touch ~/mine; ls /srv/ann /var/lib/dp-worker/credential; ls -d /proc/1; "
                            "grep CapEff /proc/self/status", check=False, environment=login)
            output[name] = done.stdout + done.stderr
            self.assertIn(name, done.stdout)
            self.assertIn("CapEff:\t0000000000000000", done.stdout)
            self.assertRegex(output[name], "credential.*denied")
            self.assertRegex(output[name], "'/proc/1'.*No such file")
        self.assertIn("mine", output["ann"])
        self.assertRegex(output["bob"], "/srv/ann.*denied")
        self.assertEqual(shell("stat -c %U /srv/bob/mine"), "bob")
        pid = shown("dp-worker", "MainPID")
        self.assertEqual(shell(f"grep CapEff /proc/{pid}/status"), "CapEff:\t00000000000800e3")

    def test_with_the_drop_in_for_confined_ranks_they_have_a_tmp_of_their_own_and_write_nowhere_else(self):
        options = "usr/local/etc/dp/worker.env"
        folder = "/etc/systemd/system/dp-worker.service.d"
        self.addCleanup(self.restart_with, "dp-worker", f"rm -r {folder}")
        self.addCleanup(ROOT.write, options, (ROOT.path / options).read_text())
        for drop_ins, user in ((("sandbox",), "dp-worker"), (("sandbox", "users"), "nobody")):
            with self.subTest(drop_ins=drop_ins):
                run_as = f" --run-as {user}" if "users" in drop_ins else ""
                ROOT.write(options, f"DP_WORKER_OPTIONS=--name w --slots 2 --private-tmp --read-only-root{run_as}\n")
                self.restart_with("dp-worker", "; ".join(
                    f"install -Dm644 /usr/local/share/dp/systemd/dp-worker-{each}.conf {folder}/{each}.conf"
                    for each in drop_ins))
                self.assertTrue(eventually(serving), self.journal("dp-worker"))
                done = dpctl("run", "--", "sh", "-c", "exec 2>&1; id -un; touch /tmp/mine; ls -A /tmp; "
                             "touch /var/mine; grep CapEff /proc/self/status", check=False)
                self.assertRegex(done.stdout, rf"(?s){user}.*mine.*/var/mine.*Read-only file system.*"
                                              r"CapEff:\s0000000000000000")

    def start_rank(self, name, script):
        dpctl("submit", "--name", name, "--", "bash", "-c", script)
        self.addCleanup(self.end, name)
        said = eventually(lambda: "READY-TO-DIE" in dpctl("logs", name).stdout)
        self.assertTrue(said, dpctl("describe", name).stdout)

    def end(self, name):
        """Ends a job, which would otherwise restart after its worker went and keep its slots."""
        dpctl("cancel", name, check=False)
        dpctl("wait", name, check=False)

    def test_a_killed_daemon_takes_its_ranks_along_and_comes_back(self):
        self.start_rank("stubborn", "trap '' TERM; setsid sleep 1234 & echo READY-TO-DIE; wait; wait")
        self.assertNotEqual(shell("pgrep -f 'sleep [1]234'"), "")
        ROOT.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "dp-worker")
        self.assertTrue(eventually(lambda: shell("pgrep -f 'sleep [1]234'") == ""))
        self.assertTrue(eventually(lambda: int(shown("dp-worker", "NRestarts")) >= 1))
        self.assertTrue(eventually(lambda: shown("dp-worker", "ActiveState") == "active"))

    def test_a_rank_has_a_cgroup_of_its_own_below_the_units(self):
        self.start_rank("boxed", "cat /proc/self/cgroup; echo READY-TO-DIE; sleep 1000")
        self.assertRegex(dpctl("logs", "boxed").stdout,
                         r"0::/system\.slice/dp-worker\.service/dp-worker\.\w+/rank-\d+\.1\.0\n")

    def test_a_stopped_worker_gives_its_ranks_their_grace_and_sends_their_last_words(self):
        self.start_rank("polite", "trap 'echo last words; exit 0' TERM; echo READY-TO-DIE; "
                        "sleep 1000 & wait")
        ROOT.run("systemctl", "stop", "dp-worker")
        self.assertEqual(shown("dp-worker", "Result"), "success")
        self.assertIn("last words", dpctl("logs", "polite").stdout)
        ROOT.run("systemctl", "start", "dp-worker")

    def test_a_coordinator_that_hangs_is_killed_and_started_again(self):
        self.hang_and_come_back("dp-coordinator")

    def test_a_worker_that_hangs_is_killed_and_started_again(self):
        self.hang_and_come_back("dp-worker")

    def hang_and_come_back(self, unit):
        self.change(unit, "WatchdogSec=1s")
        before = int(shown(unit, "NRestarts"))
        hung = shown(unit, "MainPID")
        alive = shown(unit, "WatchdogTimestampMonotonic")
        self.assertTrue(eventually(lambda: shown(unit, "WatchdogTimestampMonotonic") != alive))
        self.assertEqual(shown(unit, "MainPID"), hung)
        ROOT.run("kill", "-STOP", hung)
        self.assertTrue(eventually(lambda: int(shown(unit, "NRestarts")) > before))
        self.assertTrue(eventually(lambda: shown(unit, "ActiveState") == "active"))
        self.assertNotEqual(shown(unit, "MainPID"), hung)

    def test_a_wrong_setting_is_not_tried_again_and_again(self):
        self.change("dp-coordinator", "EnvironmentFile=", "Environment=DP_LISTEN=nowhere")
        self.assertEqual(shown("dp-coordinator", "ActiveState"), "failed")
        self.assertEqual(shown("dp-coordinator", "ExecMainStatus"), "2")
        self.assertEqual(shown("dp-coordinator", "NRestarts"), "0")

    def test_an_address_that_the_host_gets_later_is_tried_until_it_is_there(self):
        self.addCleanup(shell, "ip address del 10.99.0.1/32 dev lo")
        self.change("dp-coordinator", "EnvironmentFile=", "Environment=DP_LISTEN=10.99.0.1:7070")
        self.assertTrue(eventually(lambda: int(shown("dp-coordinator", "NRestarts")) >= 1))
        self.assertTrue(eventually(lambda: shown("dp-coordinator", "ExecMainStatus") == "1"))
        ROOT.run("ip", "address", "add", "10.99.0.1/32", "dev", "lo")
        self.assertTrue(eventually(lambda: shown("dp-coordinator", "StatusText") == "listening on 10.99.0.1:7070"))

    def with_rules(self, text):
        """Stops everything and replaces the host's firewall rules, for this test only."""
        path = ROOT.path / RULES
        before = path.read_text()

        def put(rules):
            ROOT.run("systemctl", "stop", "dp-worker", "dp-coordinator", "dp-firewall")
            path.unlink(missing_ok=True)
            if rules is not None:
                ROOT.write(RULES, rules)

        def restore():
            put(before)
            ROOT.run("systemctl", "start", "dp-coordinator", "dp-worker")

        self.addCleanup(restore)
        put(text)

    def change(self, unit, *lines):
        """Restarts the service with these lines in a drop-in, for this test only."""
        folder = f"/run/systemd/system/{unit}.service.d"
        self.restart_with(unit, f"mkdir -p {folder} && (echo [Service]; printf '%s\\n' "
                          f"{' '.join(lines)}) > {folder}/test.conf")
        self.addCleanup(self.restart_with, unit, f"rm -r {folder}")

    def restart_with(self, unit, command):
        ROOT.run("bash", "-c", f"{command}; systemctl daemon-reload")
        ROOT.run("systemctl", "restart", unit, check=False)


if __name__ == "__main__":
    unittest.main()
