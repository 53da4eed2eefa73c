"""Ranks run with the rights of a user, and reach nothing of other users or of the daemon."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from kit import accounts, host_cgroups, own_cgroups
from kit.accounts import ANN, BOB, Accounts, Person
from kit.cluster import BIN, TIMEOUT_S, Cluster, alive, eventually, guards_of
from kit.idx_data import train_job, write_idx
from kit.wire_client import WIRE_CLIENT

PROGRAMS = pathlib.Path(__file__).parent / "programs"
# Which every account may run; the one of a virtual environment may lie in somebody's home.
PYTHON = "/usr/bin/python3"
# Sets of capabilities in /proc/PID/status: chown, dac_override, kill, setgid, setuid, sys_ptrace.
NEEDED = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 19


def job_of(*argv, name="job", ranks=1, **command):
    return {"apiVersion": "dp/v1", "kind": "Job", "name": name, "ranks": ranks, "grace": "1s",
            "command": {"argv": list(argv), "workingDir": "/", **command}}


def shell(script, **job):
    return job_of("/bin/sh", "-c", script, **job)


def capabilities(pid, kind):
    """The sets of a process's threads, without repetition."""
    sets = set()
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        [line] = [each for each in status.read_text().splitlines() if each.startswith(f"{kind}:")]
        sets.add(int(line.split()[1], 16))
    return sets


class UsersCase(unittest.TestCase):
    def setUp(self):
        if reason := accounts.why_not():
            self.skipTest(reason)
        self.accounts = self.enterContext(Accounts())
        self.cluster = self.enterContext(Cluster())
        self.cluster.dir.chmod(0o711)
        self.programs = self.cluster.dir / "programs"
        self.programs.mkdir(0o755)
        # Ranks may run these; the build folder may be closed to them.
        for program in (BIN / "dp-trainer", PROGRAMS / "pry.py", WIRE_CLIENT):
            shutil.copy(program, self.programs)
        self.ann = Person(self.cluster, "ann", self.cluster.dir)

    def daemon(self, *options, slots=2, name="w", prefix=(), **how):
        """A daemon of root with default settings, on a host with the accounts."""
        return self.cluster.worker(slots=slots, name=name, run_as=(),
                                   options=["--trainer", self.programs / "dp-trainer", *options],
                                   prefix=[*self.accounts.prefix, *prefix], **how)

    def output_of(self, person, job):
        """Runs the job, which must succeed; returns its output as lines."""
        number = person.submit(job)
        self.assertEqual(self.cluster.wait(number), 0, self.cluster.dpctl("describe", number).stdout
                         + self.cluster.dpctl("logs", number).stdout)
        lines = self.cluster.dpctl("logs", number, "-o", "json", check=0).stdout.splitlines()
        return [json.loads(line)["line"] for line in lines]

    def reason_of(self, person, job):
        """Runs the job, which must fail; returns how dpctl describes it."""
        number = person.submit(job)
        self.assertNotEqual(self.cluster.wait(number), 0)
        return self.cluster.dpctl("describe", number).stdout

    def running(self, person, script, **job):
        """Submits a job that prints "ready"; returns (its number, the pid of rank 0)."""
        number = person.submit(shell(f"echo ready; {script}", **job))
        self.cluster.follow_until(number, "ready")
        return number, self.cluster.rank_pid(number, 0)

    def refusal(self, *options, prefix=()):
        """Runs a daemon that must not start; returns (its exit code, what it says)."""
        done = subprocess.run([*self.accounts.prefix, *prefix, BIN / "dp-worker", "--coordinator",
                               self.cluster.address, "--state-dir", self.cluster.dir / "refused",
                               *options], capture_output=True, text=True, timeout=TIMEOUT_S)
        return done.returncode, done.stderr

    @property
    def root(self):
        """The administrator of the cluster, in whose own name the tests submit."""
        return self.cluster


class PolicyTest(UsersCase):
    def test_a_daemon_of_root_runs_a_job_as_its_owner(self):
        self.daemon()
        script = "id -un; id -Gn; echo $HOME $USER $LOGNAME $SHELL; cat /proc/self/status | grep CapEff"
        self.assertEqual(self.output_of(self.ann, shell(script)), [
            "ann", "ann team", f"{self.accounts.home('ann')} ann ann /bin/sh",
            "CapEff:\t0000000000000000"])

    def test_an_owner_without_an_account_is_refused_with_the_remedy_and_the_next_owner_is_not(self):
        self.daemon()
        carol = Person(self.cluster, "carol", self.cluster.dir)
        told = self.reason_of(carol, shell("true"))
        self.assertIn("belongs to carol", told)
        self.assertIn("worker w has no account of that name; create the account", told)
        self.assertEqual(self.output_of(self.ann, shell("id -u")), [str(ANN)])

    def test_a_change_of_the_user_database_counts_from_the_next_job_on(self):
        self.daemon()
        self.assertEqual(self.output_of(self.ann, shell("id -u")), [str(ANN)])
        self.accounts.remove("ann")
        self.assertIn("no account of that name", self.reason_of(self.ann, shell("true")))

    def test_no_job_runs_as_root_unless_the_daemon_allows_it(self):
        daemon = self.daemon()
        for person in (self.root, Person(self.cluster, "toor", self.cluster.dir)):
            self.assertIn("is root (uid 0)", self.reason_of(person, shell("true")))
        daemon.stop()
        self.daemon("--allow-root")
        self.assertEqual(self.output_of(self.root, shell("id -u")), ["0"])

    def test_all_jobs_of_a_worker_can_run_as_one_account(self):
        self.daemon("--run-as", "bob")
        self.assertEqual(self.output_of(self.ann, shell("id -un; echo $HOME")),
                         ["bob", str(self.accounts.home("bob"))])

    def test_a_daemon_that_could_only_run_jobs_as_root_does_not_start(self):
        for options, code, says in ((["--run-as", "nosuch"], 1, "no account of that name"),
                                    (["--run-as", "toor"], 1, "uid 0"),
                                    (["--run-as", "self"], 2, "--allow-root")):
            with self.subTest(options=options):
                got, told = self.refusal(*options)
                self.assertEqual(got, code, told)
                self.assertIn(says, told)

    def test_a_daemon_that_lacks_a_capability_says_which(self):
        got, told = self.refusal(prefix=["setpriv", "--bounding-set=-setgid,-kill"])
        self.assertEqual(got, 1, told)
        self.assertIn("CAP_SETGID, CAP_KILL", told)

    def test_a_state_directory_that_ranks_cannot_reach_is_refused(self):
        self.cluster.dir.chmod(0o700)
        got, told = self.refusal()
        self.assertEqual(got, 1, told)
        self.assertIn(f"pass through {self.cluster.dir}", told)
        self.assertIn("--state-dir", told)

    def test_a_daemon_that_is_not_root_runs_jobs_as_itself(self):
        prefix = self.accounts.prefix_as("bob")[len(self.accounts.prefix):]
        state = self.cluster.dir / "state-w"
        state.mkdir()
        os.chown(state, BOB, BOB)
        got, told = self.refusal("--run-as", "owner", prefix=prefix)
        self.assertEqual(got, 2, told)
        self.assertIn("only root can run jobs as another user", told)
        token = self.cluster.dpctl("token", "-o", "name", check=0).stdout.strip()
        daemon = self.daemon("--join", token, prefix=prefix)
        lines = self.output_of(self.ann, job_of(
            "/bin/sh", "-c", f'id -un; {PYTHON} {self.programs / "pry.py"} {daemon.pid}'))
        self.assertEqual(lines[0], "bob")
        # It can signal its own daemon, and read no secret of it.
        self.assertEqual(json.loads(lines[1]), [f"signal {daemon.pid}"])


class ChoiceOfUserTest(UsersCase):
    """What a job says is data to the guard, which is root until the rank has its user."""

    def test_a_job_cannot_choose_its_user_by_its_command(self):
        self.daemon()
        told = self.reason_of(self.ann, job_of("--user=0:0:", "/bin/sh", "-c", "id -u"))
        self.assertIn("cannot run --user=0:0: as ann", told)

    def test_no_library_of_a_job_is_loaded_as_root(self):
        self.daemon()
        job = job_of("/bin/sh", "-c", "echo $LD_DEBUG_OUTPUT")
        traces = self.cluster.dir / "traces"
        traces.mkdir(mode=0o777)
        traces.chmod(0o777)
        job["env"] = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(traces / "trace")}
        self.assertEqual(self.output_of(self.ann, job), [str(traces / "trace")])
        owners = {each.stat().st_uid for each in traces.iterdir()}
        self.assertEqual(owners, {ANN})

    def test_no_user_of_the_host_reads_the_join_token_in_the_command_line(self):
        token = self.cluster.dpctl("token", "-o", "name", check=0).stdout.strip()
        daemon = self.daemon("--join", token)
        line = pathlib.Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
        self.assertIn(b"--join", line)
        self.assertNotIn(token.encode(), line)


class IsolationTest(UsersCase):
    def setUp(self):
        super().setUp()
        self.bob = Person(self.cluster, "bob", self.cluster.dir)

    def test_a_rank_reaches_nothing_of_another_users_rank_or_of_the_daemon(self):
        token = self.cluster.dpctl("token", "-o", "name", check=0).stdout.strip()
        daemon = self.daemon(env={"DP_JOIN_TOKEN": token})
        number, pid = self.running(self.bob, "exec sleep 1000")
        state = self.cluster.dir / "state-w"
        spool = state / f"spool/{number}/1"
        theirs = [spool / f"0.{name}" for name in
                  ("out", "err", "metrics", "error", "job", "credential/token", "credential/ca.crt")]
        own = [state / "credential/tls.key", state / "incarnations", state / "guards"]
        for path in (*theirs, *own):
            self.assertTrue(path.exists(), path)
        directories = [f"{each}.d" for each in (state, state / "spool", spool, spool / "0.credential")]
        targets = [pid, *guards_of(daemon), daemon.pid, *theirs, *own, *directories]
        [done] = self.output_of(self.ann, job_of(PYTHON, str(self.programs / "pry.py"),
                                                 *map(str, targets)))
        self.assertEqual(json.loads(done), [])
        self.assertTrue(alive(pid))
        self.assertNotIn(token.encode(), pathlib.Path(f"/proc/{daemon.pid}/environ").read_bytes())
        # The attempts are no fault of the test: root may do all of this.
        for path in theirs:
            path.read_bytes()

    def test_the_daemon_searches_no_directory_for_a_rank_that_its_user_may_not_search(self):
        self.daemon()
        closed, open_to_all = self.cluster.dir / "closed", self.cluster.dir / "open"
        for each, mode in ((closed, 0o700), (open_to_all, 0o755)):
            each.mkdir(mode)
            (each / "tool").write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\"; exit 1\n")
            (each / "tool").chmod(0o755)
        told = self.reason_of(self.ann, job_of("tool") | {"env": {"PATH": f"{closed}:{open_to_all}"}})
        self.assertIn("the Python that tool ran has no module torch", told)
        self.assertNotIn(str(closed), told)

    def test_a_rank_can_use_its_own_files(self):
        self.daemon()
        script = ("echo again > /dev/stdout; echo '{}' > $DP_METRICS_FILE; cat $DP_CREDENTIALS/token "
                  "> /dev/null; ls -l $DP_CREDENTIALS/ca.crt > /dev/null && echo readable")
        self.assertEqual(self.output_of(self.ann, shell(script))[-1], "readable")

    def test_a_daemon_and_its_guards_keep_the_needed_capabilities_alone(self):
        daemon = self.daemon()
        self.running(self.ann, "exec sleep 1000")
        for pid in (daemon.pid, *guards_of(daemon)):
            for kind in ("CapPrm", "CapEff", "CapBnd"):
                self.assertEqual(capabilities(pid, kind), {NEEDED}, (pid, kind))
            for kind in ("CapInh", "CapAmb"):
                self.assertEqual(capabilities(pid, kind), {0}, (pid, kind))

    def test_the_ranks_of_a_job_meet_at_their_relayed_store(self):
        self.daemon()
        job = job_of(PYTHON, str(self.programs / WIRE_CLIENT.name), "count", "5", ranks=2,
                     store="relay")
        self.output_of(self.ann, job)


class FilesTest(UsersCase):
    def setUp(self):
        super().setUp()
        self.daemon()
        self.data = write_idx(self.cluster.dir / "data")

    def trained(self, folder, **train):
        return train_job(self.data, ranks=1, output={"weights": str(folder / "w.safetensors")}, **train)

    def test_weights_and_checkpoints_are_the_owners(self):
        home = self.accounts.home("ann")
        job = self.trained(home, checkpoint={"dir": str(home / "checkpoints"), "everySteps": 10})
        self.output_of(self.ann, job)
        files = [home / "w.safetensors", *(home / "checkpoints").rglob("*")]
        self.assertGreater(len(files), 2)
        self.assertEqual({each.stat().st_uid for each in files}, {ANN})

    def test_a_directory_that_only_root_may_write_is_refused(self):
        closed = self.cluster.dir / "closed"
        closed.mkdir(0o755)
        told = self.reason_of(self.ann, self.trained(closed))
        self.assertIn("Permission denied", told)
        told = self.reason_of(self.ann, self.trained(self.accounts.home("ann"), checkpoint={
            "dir": str(closed / "checkpoints"), "everySteps": 10}))
        self.assertIn("Permission denied", told)
        self.assertEqual(list(closed.iterdir()), [])

    def test_files_are_removed_with_the_owners_rights_alone(self):
        home = self.accounts.home("ann")
        job = self.trained(home, checkpoint={"dir": str(home / "checkpoints"), "everySteps": 10})
        number = self.ann.submit(job)
        self.assertEqual(self.cluster.wait(number), 0)
        [directory] = (home / "checkpoints").iterdir()
        os.chown(directory, 0, 0)
        for person in (self.ann, self.root):
            told = person.dpctl("rm", "--with-files", number, check=1).stderr
            self.assertIn("Permission denied", told)
            self.assertIn(f"job {number} stays on record", told)
        os.chown(directory, ANN, ANN)
        bob = Person(self.cluster, "bob", self.cluster.dir)
        self.assertIn("is not known", bob.dpctl("rm", "--with-files", number, check=102).stderr)
        self.assertTrue(list(directory.iterdir()))
        self.root.dpctl("rm", "--with-files", number, check=0)
        self.assertEqual(list((home / "checkpoints").iterdir()), [])
        self.assertFalse((home / "w.safetensors").exists())

    def test_a_working_directory_is_entered_as_the_owner(self):
        job = shell("pwd")
        job["command"]["workingDir"] = str(self.accounts.home("ann"))
        self.assertEqual(self.output_of(self.ann, job), [str(self.accounts.home("ann"))])
        job["command"]["workingDir"] = str(self.accounts.home("bob"))
        told = self.reason_of(self.ann, job)
        self.assertIn(f"working directory {self.accounts.home('bob')} on this host as ann: Permission denied",
                      told)


class LifeTest(UsersCase):
    SCRIPT = "sleep 1000 & setsid sleep 1000 & echo pids $$ $(jobs -p); wait"

    def tree(self, number):
        """All processes of the job's rank."""
        line = self.cluster.follow_until(number, "pids ")
        root = int(line.split("pids ")[1].split()[0])
        children = pathlib.Path(f"/proc/{root}/task/{root}/children").read_text().split()
        return [root, *map(int, children)]

    def started(self, **options):
        daemon = self.daemon(**options)
        number = self.ann.submit(shell(self.SCRIPT))
        tree = self.tree(number)
        self.assertGreaterEqual(len(tree), 3)
        self.assertEqual({os.stat(f"/proc/{pid}").st_uid for pid in tree}, {ANN})
        return daemon, number, tree

    def assert_gone(self, tree):
        self.assertTrue(eventually(lambda: not any(alive(pid) for pid in tree)))

    def test_a_killed_daemon_takes_ranks_of_another_user_along_and_the_next_one_sends_their_output(self):
        daemon, number, tree = self.started()
        daemon.kill()
        self.assert_gone(tree)
        self.daemon()
        self.assertTrue(eventually(
            lambda: "pids " in self.cluster.dpctl("logs", number, "--generation", "1").stdout))

    def test_a_killed_guard_takes_its_rank_along(self):
        daemon, number, tree = self.started()
        [guard] = guards_of(daemon)
        os.kill(guard, signal.SIGKILL)
        self.assert_gone(tree)
        self.assertEqual(self.cluster.wait(number), 128 + signal.SIGKILL)

    def test_a_cancelled_job_ends(self):
        _, number, tree = self.started()
        self.cluster.dpctl("cancel", number, check=0)
        self.assert_gone(tree)

    if not host_cgroups.HIDDEN:
        def test_a_rank_cannot_leave_its_cgroup(self):
            if reason := own_cgroups.why_not("cgroup2"):
                self.skipTest(reason)
            self.daemon()
            above = "$(sed -n 's/^0:://p' /proc/self/cgroup)/.."
            script = f"for top in /sys/fs/cgroup /sys/fs/cgroup/unified; do echo 0 > $top{above}/cgroup.procs; done"
            number = self.ann.submit(shell(script + " 2>&1; true"))
            self.cluster.wait(number)
            self.assertIn("Permission denied", self.cluster.dpctl("logs", number).stdout)


if __name__ == "__main__":
    unittest.main()
