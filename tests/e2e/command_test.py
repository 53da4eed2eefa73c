"""Any program as a job, without PyTorch: its environment, directory, output and exit."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from kit.cluster import BIN, TIMEOUT_S, Cluster, alive, eventually
from kit.rank_lines import lines_of
from kit.terminal import CTRL_C, Terminal


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())

    def two_workers(self, slots):
        for name in ("worker-a", "worker-b"):
            self.cluster.worker(slots=slots, name=name)

    def environments(self, *flags):
        """The environments of two ranks on each of two workers, by rank."""
        self.two_workers(slots=3)
        done = self.cluster.dpctl("run", "--nnodes", 2, "--nproc-per-node", 2, *flags, "--", "env",
                                  check=0)
        found = [{} for _ in range(4)]
        for rank, text in lines_of(done.stdout):
            name, _, value = text.partition("=")
            found[rank][name] = value
        return found

    def test_the_ranks_of_a_worker_are_adjacent_and_know_their_place(self):
        ranks = self.environments()
        places = [(r["RANK"], r["LOCAL_RANK"], r["GROUP_RANK"], r["ROLE_RANK"]) for r in ranks]
        self.assertEqual(places, [("0", "0", "0", "0"), ("1", "1", "0", "1"), ("2", "0", "1", "2"),
                                  ("3", "1", "1", "3")])
        self.assertEqual([r["DP_WORKER"] for r in ranks], 2 * ["worker-a"] + 2 * ["worker-b"])
        for rank in ranks:
            self.assertEqual(rank["WORLD_SIZE"], "4")
            self.assertEqual(rank["LOCAL_WORLD_SIZE"], "2")
            self.assertEqual(rank["TORCHELASTIC_RESTART_COUNT"], "0")
            self.assertEqual(rank["OMP_NUM_THREADS"], "1")
            self.assertEqual(rank["PYTHONUNBUFFERED"], "1")
            self.assertEqual(rank["GLOO_SOCKET_IFNAME"], "lo")
            self.assertEqual(rank["TORCHELASTIC_USE_AGENT_STORE"], "True")
            self.assertRegex(rank["MASTER_ADDR"], r"^127\.0\.0\.\d+$")
        self.assertEqual(len({r["MASTER_PORT"] for r in ranks}), 1)
        self.assertEqual({(r["DP_RANK0_ADDRESS"], r["DP_RANK0_PORT"]) for r in ranks},
                         {("127.0.0.1", ranks[0]["DP_PORT"])})
        self.assertEqual(len({r["DP_PORT"] for r in ranks}), 4)

    def test_a_daemons_own_variables_reach_its_ranks_only_by_name(self):
        own = {"AWS_SECRET_ACCESS_KEY": "a", "SITE_CACHE": "b", "SITE_TOKEN": "c", "CUDA_CACHE_PATH": "d"}
        for options, expected in (((), {"CUDA_CACHE_PATH"}),
                                  (("--pass-env", "SITE_*"), {"CUDA_CACHE_PATH", "SITE_CACHE"}),
                                  (("--pass-all-env",), set(own))):
            worker = self.cluster.worker(options=options, env=own)
            done = self.cluster.dpctl("run", "--", "env", check=0)
            worker.stop()
            names = {text.partition("=")[0] for _, text in lines_of(done.stdout)}
            self.assertEqual(names & set(own), expected, options)

    def test_a_rank_gets_no_privileges_by_setuid_programs_unless_its_worker_says_so(self):
        for options, expected in (((), "1"), (("--new-privileges",), "0")):
            worker = self.cluster.worker(options=options)
            done = self.cluster.dpctl("run", "--", "sed", "-n", "s/^NoNewPrivs:\t//p", "/proc/self/status", check=0)
            worker.stop()
            self.assertEqual(lines_of(done.stdout), [(0, expected)])

    def test_the_jobs_own_variables_win(self):
        ranks = self.environments("--env", "GLOO_SOCKET_IFNAME=eth7", "--env", "GREETING=a=b")
        self.assertEqual({r["GLOO_SOCKET_IFNAME"] for r in ranks}, {"eth7"})
        self.assertEqual({r["GREETING"] for r in ranks}, {"a=b"})

    def test_other_launchers_contracts_come_from_the_same_placement(self):
        ranks = self.environments("--contract", "tensorflow")
        clusters = [json.loads(r["TF_CONFIG"]) for r in ranks]
        self.assertEqual([c["task"]["index"] for c in clusters], [0, 1, 2, 3])
        workers = clusters[0]["cluster"]["worker"]
        self.assertEqual(workers, [f"127.0.0.1:{r['DP_PORT']}" for r in ranks])

    def test_a_program_runs_where_dpctl_was_called(self):
        self.cluster.worker()
        done = self.cluster.dpctl("run", "--", "pwd", check=0, cwd=self.cluster.dir)
        self.assertEqual(lines_of(done.stdout), [(0, str(self.cluster.dir.resolve()))])

    def test_a_directory_that_is_not_there_is_named(self):
        self.cluster.worker()
        done = self.cluster.dpctl("run", "--workdir", "/no/such", "--", "pwd", check=100)
        self.assertIn("working directory /no/such on this host", done.stderr)

    def test_a_program_that_is_not_there_is_named(self):
        self.cluster.worker()
        done = self.cluster.dpctl("run", "--", "no-such-program", check=100)
        self.assertIn("cannot run no-such-program", done.stderr)
        self.assertNotIn("is incomplete", done.stderr)  # there is no output

    def test_exit_codes_and_signals_pass_through(self):
        self.cluster.worker()
        self.cluster.dpctl("run", "--", "sh", "-c", "exit 7", check=7)
        self.cluster.dpctl("run", "--", "sh", "-c", "kill -9 $$", check=137)

    def test_lines_carry_rank_and_host_and_ranks_can_be_chosen(self):
        self.two_workers(slots=2)
        job = self.cluster.dpctl("submit", "-o", "name", "--nnodes", 2, "--nproc_per_node", 2, "--",
                                 "sh", "-c", "echo hello from $RANK", check=0).stdout.strip()
        self.assertEqual(self.cluster.wait(job), 0)
        host = self.cluster.describe(job)["ranks"][0]["host"]
        output = self.cluster.dpctl("logs", job, "--rank", "0,2-3", check=0).stdout
        self.assertEqual(sorted(output.splitlines()),
                         [f"[{rank} {host}] hello from {rank}" for rank in (0, 2, 3)])

    def test_a_job_that_no_workers_can_share_says_what_is_missing(self):
        self.cluster.worker(slots=4)
        job = self.cluster.dpctl("submit", "-o", "name", "--nnodes", 2, "--nproc-per-node", 2, "--",
                                 "true", check=0).stdout.strip()
        self.assertIn("needs 2 workers with 2 slots each",
                      self.cluster.describe(job)["pendingReasons"][0])
        self.cluster.worker(slots=2)
        self.assertEqual(self.cluster.wait(job), 0)

    def test_all_slots_of_a_worker_can_be_asked_for(self):
        self.cluster.worker(slots=3)
        done = self.cluster.dpctl("run", "--nproc-per-node", "cpu", "--", "sh", "-c",
                                  "echo $WORLD_SIZE", check=0)
        self.assertEqual([text for _, text in lines_of(done.stdout)], ["3", "3", "3"])

    def test_local_brings_a_worker_for_each_node(self):
        done = self.cluster.dpctl("run", "--local", "--nnodes", 2, "--", "sh", "-c",
                                  "echo $DP_WORKER in $(pwd)", check=0, cwd=self.cluster.dir)
        here = self.cluster.dir.resolve()
        self.assertEqual(sorted(lines_of(done.stdout)),
                         [(0, f"local-0 in {here}"), (1, f"local-1 in {here}")])

    def test_local_needs_nothing_of_the_variables_for_another_cluster(self):
        variables = {"DP_INSECURE": "1", "DP_JOIN_TOKEN": "junk", "DP_CREDENTIALS": "/nowhere", "DP_RUN_AS": "nobody",
                     "DP_COORDINATOR": "junk", "DPCTL_COORDINATOR": "junk", "DP_PROCESS_TRACKING": "guard"}
        done = subprocess.run([BIN / "dpctl", "run", "--local", "--", "sh", "-c", "echo $DP_WORKER"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **variables})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lines_of(done.stdout), [(0, "local-0")])

    def test_local_shows_what_a_worker_has_logged_that_does_not_get_ready(self):
        bin = self.cluster.dir / "bin"
        bin.mkdir()
        for program in ("dpctl", "dp-coordinator"):
            shutil.copy(BIN / program, bin)
        (bin / "dp-worker").write_text("#!/bin/sh\necho stuck here >&2\nexec tail -f /dev/null\n")
        (bin / "dp-worker").chmod(0o755)
        with Terminal([bin / "dpctl", "run", "--local", "--", "true"]) as terminal:
            terminal.until("dp-worker is not ready yet; dpctl waits up to 2m; its last lines:")
            terminal.until("| stuck here")
            terminal.press(CTRL_C)
            self.assertEqual(terminal.end(), 103, terminal.output)

    def test_cancel_ends_what_a_program_has_started(self):
        self.cluster.worker()
        script = "trap '' TERM; tail -f /dev/null & echo child $!; wait"
        path = self.cluster.dir / "job.json"
        path.write_text(json.dumps({
            "apiVersion": "dp/v1", "kind": "Job", "name": "stubborn", "grace": "1s",
            "command": {"argv": ["sh", "-c", script]}}))
        job = self.cluster.dpctl("submit", "-o", "name", path, check=0).stdout.strip()
        child = int(self.cluster.follow_until(job, "child ").split()[-1])
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertFalse(alive(child))
        # The coordinator answers the wait first. Once it knows of the exit, the daemon drops the
        # spool.
        spools = lambda: list(pathlib.Path(self.cluster.dir).glob("state-*/spool/*"))
        self.assertTrue(eventually(lambda: not spools()), spools())


if __name__ == "__main__":
    unittest.main()
