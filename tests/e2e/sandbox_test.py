"""Options of a worker that confine ranks: a /tmp of their own, read-only files, allowed programs."""

import os
import pathlib
import unittest

from e2e import users_test
from e2e.users_test import NEEDED, PYTHON, job_of, shell
from kit.accounts import ANN, BOB, Person
from kit.cluster import eventually, guards_of
from kit.idx_data import train_job, write_idx
from kit.wire_client import WIRE_CLIENT

SYS_ADMIN = 1 << 21
# Prints "ready" once both ranks have seen each other's file.
MEET = ("touch /tmp/rank-$DP_RANK /var/tmp/rank-$DP_RANK; "
        "until [ -e /tmp/rank-0 ] && [ -e /var/tmp/rank-1 ]; do sleep 0.05; done; "
        "mkdir -m 1777 /tmp/sticky-$DP_RANK; touch /tmp/sticky-$DP_RANK/a; "
        "mkdir -p /tmp/closed-$DP_RANK/a/b; chmod 0 /tmp/closed-$DP_RANK; "
        "echo ready; exec sleep 1000")


class SandboxCase(users_test.UsersCase):
    def setUp(self):
        super().setUp()
        self.state = self.cluster.dir / "state-w"
        self.home = self.accounts.home("ann")

    def own_tmp(self, job, generation=1):
        """The private directories of the job's generation on the worker."""
        return list((self.state / "tmp").glob(f"{job}.{generation}.*"))

    def meeting(self):
        """Starts a job of two ranks that have found each other in their /tmp; returns its number."""
        number = self.ann.submit(shell(MEET, ranks=2))
        self.cluster.follow_until_each(number, "ready", 2)
        return number

    def assert_gone(self, path):
        self.assertTrue(eventually(lambda: not path.exists()), path)


class PrivateTmpTest(SandboxCase):
    def test_the_ranks_of_a_job_share_a_tmp_that_nobody_else_sees_and_that_goes_with_them(self):
        self.daemon("--private-tmp", slots=3)
        before = set(os.listdir("/tmp"))
        number = self.meeting()
        self.assertNotIn("rank-0", set(os.listdir("/tmp")) - before)
        [own] = self.own_tmp(number)
        self.assertEqual((own / "tmp/rank-0").stat().st_uid, ANN)
        bob = Person(self.cluster, "bob", self.cluster.dir)
        self.assertEqual(self.output_of(bob, shell(f"ls /tmp /var/tmp | grep rank; ls {own} 2> /dev/null; true")), [])
        self.cluster.dpctl("cancel", number, check=0)
        self.assert_gone(own)

    def test_what_a_killed_daemon_left_is_removed_by_the_next(self):
        for options in (["--private-tmp"], []):
            with self.subTest(options=options):
                daemon = self.daemon("--private-tmp")
                number = self.meeting()
                [own] = self.own_tmp(number)
                daemon.kill()
                next_daemon = self.daemon(*options)
                self.assert_gone(own)
                self.cluster.dpctl("cancel", number, check=0)
                self.cluster.wait(number)
                next_daemon.stop()
                self.assert_gone(self.state / "tmp")

    def test_a_rank_can_use_its_own_files_which_lie_below_tmp(self):
        self.assertTrue(self.state.is_relative_to(pathlib.Path("/tmp")) or "TMPDIR" in os.environ)
        self.daemon("--private-tmp", "--read-only-root")
        script = ("echo again > /dev/stdout; echo '{}' > $DP_METRICS_FILE; cat $DP_CREDENTIALS/token "
                  "> /dev/null; ls -l $DP_CREDENTIALS/ca.crt > /dev/null && echo readable")
        self.assertEqual(self.output_of(self.ann, shell(script))[-1], "readable")

    def test_a_rank_finds_no_way_to_the_hosts_tmp(self):
        daemon = self.daemon("--private-tmp")
        script = f"ls -A /proc/$PPID/root /proc/{daemon.pid}/root 2>&1; ls -A /tmp; cd ..; ls -A tmp"
        lines = self.output_of(self.ann, shell(script))
        self.assertEqual([line.split(": ")[-1] for line in lines[:2]], ["Permission denied"] * 2)
        self.assertNotIn("dp-users-", " ".join(lines))

    def test_a_working_directory_below_the_hosts_tmp_is_hidden_and_the_error_says_so(self):
        self.assertTrue(self.home.is_relative_to(pathlib.Path("/tmp")) or "TMPDIR" in os.environ)
        self.daemon("--private-tmp")
        job = shell("pwd")
        job["command"]["workingDir"] = str(self.home)
        self.assertIn("No such file or directory; each job has a /tmp of its own on this worker",
                      self.reason_of(self.ann, job))


class ReadOnlyRootTest(SandboxCase):
    def test_a_rank_writes_only_where_it_may(self):
        everybodys = self.cluster.dir / "everybodys"
        for folder in (everybodys, everybodys / "open", everybodys / "closed"):
            folder.mkdir()
            folder.chmod(0o777)
        # The daemon's host has it as /srv, since /tmp is writable.
        at_srv = ["sh", "-c", 'mount --bind "$1" /srv && shift && exec "$@"', "sh", everybodys]
        self.daemon("--read-only-root", "--writable", "/srv/open", prefix=at_srv)
        paths = ("/srv/open/a", "/tmp/$$", "/var/tmp/$$", "/dev/shm/$$", "/dev/null", "/srv/closed/a", "/srv/a")
        script = f"for path in {' '.join(paths)}; do (: > $path) 2>&1 && echo wrote; done; rm /tmp/$$ /var/tmp/$$ /dev/shm/$$"
        lines = self.output_of(self.ann, shell(script))
        self.assertEqual([line.split(": ")[-1] for line in lines],
                         ["wrote"] * 5 + ["Read-only file system"] * 2)
        self.assertEqual([each.name for each in everybodys.rglob("a")], ["a"])
    def test_a_train_job_trains_and_a_checkpoint_elsewhere_says_why_it_cannot_be_written(self):
        data = write_idx(self.cluster.dir / "data")
        self.daemon("--private-tmp", "--read-only-root", "--writable", self.home, "--writable", data,
                    "--writable", self.programs)
        weights = self.home / "w.safetensors"
        self.output_of(self.ann, train_job(data, ranks=2, output={"weights": str(weights)}))
        self.assertEqual(weights.stat().st_uid, ANN)
        elsewhere = train_job(data, ranks=1, checkpoint={"dir": "/srv/checkpoints", "everySteps": 10})
        self.assertIn("Read-only file system", self.reason_of(self.ann, elsewhere))

    def test_the_ranks_of_a_job_meet_at_their_relayed_store(self):
        self.daemon("--private-tmp", "--read-only-root", "--writable", self.programs)
        self.output_of(self.ann, job_of(PYTHON, str(self.programs / WIRE_CLIENT.name), "count", "5",
                                        ranks=2, store="relay"))


class AllowProgramTest(SandboxCase):
    def test_only_allowed_programs_run_and_the_job_says_so_at_once(self):
        self.daemon("--allow-program", PYTHON)
        told = self.reason_of(self.ann, shell("true"))
        self.assertRegex(told, r"worker w does not allow the program /bin/sh \(/usr/bin/\w+\); choose "
                               r"another program, or start the worker with --allow-program /usr/bin/\w+")
        self.assertRegex(told, r"class: +startup\n")
        self.assertEqual(self.output_of(self.ann, job_of("python3", "-c", "print(7)")), ["7"])

    def test_a_link_does_not_lend_its_name(self):
        self.daemon("--allow-program", f"{self.home}/tool", "--allow-program", "/usr/bin/id")
        (self.home / "id").symlink_to("/usr/bin/env")
        told = self.reason_of(self.ann, job_of("id", "touch", "/tmp/x") | {"env": {"PATH": str(self.home)}})
        self.assertIn("does not allow the program id (/usr/bin/env)", told)

    def test_the_daemons_own_trainer_needs_no_permission(self):
        data = write_idx(self.cluster.dir / "data")
        self.daemon("--allow-program", "/no/such")
        self.output_of(self.ann, train_job(data, ranks=1,
                                           output={"weights": str(self.home / "w.safetensors")}))


class RightsTest(SandboxCase):
    OPTIONS = ("--private-tmp", "--read-only-root")

    def test_a_daemon_keeps_the_right_to_mount_only_for_these_options(self):
        daemon = self.daemon(*self.OPTIONS)
        _, pid = self.running(self.ann, "exec sleep 1000")
        for each in (daemon.pid, *guards_of(daemon)):
            self.assertEqual(users_test.capabilities(each, "CapEff"), {NEEDED | SYS_ADMIN})
        self.assertEqual(users_test.capabilities(pid, "CapEff"), {0})

    def test_a_daemon_that_may_not_mount_says_so_at_its_start(self):
        for option in self.OPTIONS:
            got, told = self.refusal(option, prefix=["setpriv", "--bounding-set=-sys_admin"])
            self.assertEqual(got, 1, told)
            self.assertIn("CAP_SYS_ADMIN", told)
            self.assertIn("--private-tmp or --read-only-root", told)

    def test_a_path_that_is_not_there_is_named(self):
        got, told = self.refusal("--read-only-root", "--writable", "/no/such")
        self.assertEqual(got, 1, told)
        self.assertIn("--writable /no/such", told)
        for options in (["--writable", "/tmp"], ["--read-only-root", "--writable", "/"],
                        ["--read-only-root", "--writable", "here"], ["--allow-program", "python3"]):
            self.assertEqual(self.refusal(*options)[0], 2, options)

    def test_a_daemon_that_is_not_root_confines_ranks_too(self):
        prefix = self.accounts.prefix_as("bob")[len(self.accounts.prefix):]
        self.state.mkdir()
        os.chown(self.state, BOB, BOB)
        reason = self.refusal(*self.OPTIONS, prefix=prefix)[1]
        if "cannot have mounts of their own" in reason:
            self.assertIn("user.max_user_namespaces", reason)
            self.skipTest("no user namespaces for users here")
        token = self.cluster.dpctl("token", "-o", "name", check=0).stdout.strip()
        daemon = self.daemon("--join", token, *self.OPTIONS, "--writable", self.programs, prefix=prefix)
        number = self.meeting()
        [own] = self.own_tmp(number)
        self.cluster.dpctl("cancel", number, check=0)
        self.assert_gone(own)
        script = (f"id -un; (: > /srv/a); ls /proc/$PPID/root "
                  f"/proc/{daemon.pid}/root; unshare -m true; grep CapEff /proc/self/status")
        lines = self.output_of(self.ann, shell(f"exec 2>&1; {script}"))
        self.assertEqual(lines[0], "bob")
        self.assertIn("Read-only file system", lines[1])
        self.assertEqual([line.split(": ")[-1] for line in lines[2:4]], ["Permission denied"] * 2)
        self.assertIn("Operation not permitted", lines[4])
        self.assertEqual(lines[5], "CapEff:\t0000000000000000")
        self.output_of(self.ann, job_of(PYTHON, str(self.programs / WIRE_CLIENT.name), "count", "5",
                                        ranks=2, store="relay"))


if __name__ == "__main__":
    unittest.main()
