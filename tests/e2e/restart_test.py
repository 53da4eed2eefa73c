"""Jobs that survive failures: the next generation, the places of its ranks, and the reports
about it."""

import os
import pathlib
import signal
import subprocess
import unittest

from kit import pytorch
from kit.cluster import TIMEOUT_S, Cluster, alive, eventually
from kit.idx_data import train_job, write_idx
from kit.pytorch import PYTHON, WITHIN_S

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def command_job(*argv, ranks=1, restart=None, **command):
    return {"apiVersion": "dp/v1", "kind": "Job", "name": "program", "ranks": ranks, "grace": "2s",
            "restart": restart or {}, "command": {"argv": list(argv), **command}}


class RestartCase(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(**self.OPTIONS))

    OPTIONS = {}

    def workers(self, *names):
        return {name: self.cluster.worker(slots=1, name=name) for name in names}

    def placed(self, job):
        """(generation, worker of each rank) once all ranks have joined."""
        described = self.cluster.describe(job)
        if described["state"] != "RUNNING":
            return None
        return described["generation"], [rank["worker"] for rank in described["ranks"]]

    def await_generation(self, job, number, timeout_s=240):
        def there():
            placed = self.placed(job)
            return placed if placed and placed[0] >= number else None
        placed = eventually(there, timeout_s)
        self.assertTrue(placed, self.cluster.dpctl("describe", job).stdout)
        return placed


class RestartTest(RestartCase):
    def test_a_killed_rank_of_a_training_makes_the_next_generation_which_succeeds(self):
        self.workers("worker-a", "worker-b")
        data = write_idx(self.cluster.dir / "data")
        job = self.cluster.submit({**train_job(data, epochs=25, evaluateEvery=0),
                                   "restart": {"maxRestarts": 1}})
        with subprocess.Popen([*self.cluster.dpctl_command(), "logs", "-f", job],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as logs:
            self.cluster.follow_until(job, "epoch 1/")
            before = self.cluster.describe(job)
            os.kill(before["ranks"][1]["pid"], signal.SIGKILL)
            self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("describe", job).stdout)
            out, err = logs.communicate(timeout=TIMEOUT_S)
        after = self.cluster.describe(job)
        self.assertEqual(after["generation"], 2)
        self.assertEqual(after["restarts"], 1)
        self.assertEqual([rank["worker"] for rank in after["ranks"]],
                         [rank["worker"] for rank in before["ranks"]])
        past = after["pastFailures"][0]
        self.assertEqual((past["generation"], past["rank"], past["signal"], past["countedAs"]),
                         (1, 1, signal.SIGKILL, "user"))
        self.assertIn("goes on as generation 2", err)
        self.assertIn("epoch 25/25", out)

    def test_logs_show_the_latest_generation_or_the_one_that_is_asked_for(self):
        self.workers("worker-a")
        job = self.cluster.submit(command_job(
            "sh", "-c", "echo life $DP_GENERATION of $TORCHELASTIC_RESTART_COUNT; "
            "[ $DP_GENERATION = 3 ]", restart={"maxRestarts": 2}))
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("describe", job).stdout)
        self.assertIn("life 3 of 2", self.cluster.dpctl("logs", job).stdout)
        self.assertNotIn("life 1", self.cluster.dpctl("logs", job).stdout)
        first = self.cluster.dpctl("logs", job, "--generation", 1).stdout
        self.assertIn("life 1 of 0", first)
        self.assertNotIn("life 2", first)
        self.assertEqual(self.cluster.dpctl("logs", job, "--generation", 4).returncode, 2)
        table = self.cluster.dpctl("ps", "-a", "--no-headers").stdout.split()
        self.assertEqual(table[4], "2")

    def test_a_used_up_budget_is_the_end_and_says_so(self):
        self.workers("worker-a")
        job = self.cluster.submit(command_job("sh", "-c", "exit 7", restart={"maxRestarts": 1}))
        self.assertEqual(self.cluster.wait(job), 7)
        described = self.cluster.describe(job)
        self.assertEqual(described["generation"], 2)
        self.assertEqual(described["notRestartedBecause"],
                         "restart.maxRestarts: 1 of 1 restarts are used up")
        self.assertEqual(len(described["pastFailures"]), 1)

    def test_a_training_that_fails_right_after_its_first_step_has_got_going(self):
        self.workers("worker-a", "worker-b")
        data = write_idx(self.cluster.dir / "data")
        # The loss of step 2 is not finite on any rank.
        optimizer = {"sgd": {"learningRate": 1e30, "momentum": 0.9}}
        job = self.cluster.submit({**train_job(data, epochs=2, evaluateEvery=0, optimizer=optimizer),
                                   "restart": {"maxRestarts": 4, "startup": 0}})
        self.assertNotEqual(self.cluster.wait(job), 0)
        described = self.cluster.describe(job)
        self.assertEqual(described["notRestartedBecause"],
                         "restart.maxRestarts: 4 of 4 restarts are used up")

    def test_exit_codes_that_never_and_always_retry(self):
        self.workers("worker-a")
        script = "[ $DP_GENERATION = 1 ] && exit 33; exit 93"
        job = self.cluster.submit(command_job(
            "sh", "-c", script, restart={"maxRestarts": 5, "alwaysRetryExitCodes": [33],
                                         "neverRetryExitCodes": [93]}))
        self.assertEqual(self.cluster.wait(job), 93)
        described = self.cluster.describe(job)
        self.assertEqual(described["generation"], 2)
        self.assertIsNone(described["pastFailures"][0]["countedAs"])

    def test_a_program_that_cannot_be_started_fails_at_once(self):
        self.workers("worker-a")
        job = self.cluster.submit(command_job("no-such-program"))
        self.assertEqual(self.cluster.wait(job), 100)
        self.assertEqual(self.cluster.describe(job)["generation"], 1)

    def test_a_killed_daemons_ranks_move_to_a_spare_worker_and_the_others_stay(self):
        workers = self.workers("worker-a", "worker-b")
        data = write_idx(self.cluster.dir / "data")
        job = self.cluster.submit(train_job(data, epochs=100000, evaluateEvery=0))
        self.await_generation(job, 1)
        self.workers("worker-c")
        workers["worker-a"].kill()
        self.assertEqual(self.await_generation(job, 2), (2, ["worker-c", "worker-b"]))
        described = self.cluster.describe(job)
        self.assertEqual(described["pastFailures"][0]["failureClass"], "infra")
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)

    def test_a_program_that_fails_since_its_peers_daemon_was_killed_runs_again_on_a_spare_worker(self):
        workers = self.workers("worker-a", "worker-b", "worker-c")
        # As PyTorch's ranks do: rank 0 fails at once when the connection to rank 1 breaks.
        source = ("import os, socket, sys\n"
                  "rank, generation = int(os.environ['RANK']), int(os.environ['DP_GENERATION'])\n"
                  "if generation > 1: sys.exit(0)\n"
                  "if rank == 0:\n"
                  "  server = socket.create_server(('127.0.0.1', int(os.environ['DP_RANK0_PORT'])))\n"
                  "  peer = server.accept()[0]\n"
                  "  print('connected', flush=True)\n"
                  "  peer.recv(1)\n"
                  "  sys.exit('the peer is gone')\n"
                  "while True:\n"
                  "  try: peer = socket.create_connection(('127.0.0.1', int(os.environ['DP_RANK0_PORT'])))\n"
                  "  except OSError: os.sched_yield()\n"
                  "  else: peer.recv(1)\n")
        job = self.cluster.submit(command_job("python3", "-c", source, ranks=2))
        self.cluster.follow_until(job, "connected")
        first = self.cluster.describe(job)["ranks"][1]["worker"]
        workers[first].kill()
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("describe", job).stdout)
        described = self.cluster.describe(job)
        self.assertNotIn(first, [rank["worker"] for rank in described["ranks"]])
        past = described["pastFailures"][0]
        self.assertEqual((past["rank"], past["worker"], past["countedAs"]), (1, first, "infra"))

    def test_a_silent_daemon_is_lost_with_the_shorter_lease_that_a_job_has_asked_for(self):
        workers = self.workers("worker-a", "worker-b")
        job = self.cluster.submit({**command_job("sleep", "1000", ranks=2), "detectWithin": "3s"})
        self.await_generation(job, 1)
        self.workers("worker-c")
        workers["worker-a"].freeze()
        self.assertEqual(self.await_generation(job, 2), (2, ["worker-c", "worker-b"]))
        past = self.cluster.describe(job)["pastFailures"][0]
        self.assertEqual((past["failureClass"], past["worker"]), ("infra", "worker-a"))
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)

    def test_a_daemon_that_shuts_down_hands_its_ranks_over(self):
        workers = self.workers("worker-a")
        job = self.cluster.submit(command_job("sleep", "1000"))
        self.await_generation(job, 1)
        self.workers("worker-b")
        workers["worker-a"].stop()
        self.assertEqual(self.await_generation(job, 2), (2, ["worker-b"]))
        self.assertIn("shutting down", self.cluster.describe(job)["pastFailures"][0]["message"])

    def test_a_program_that_obeys_the_shutdown_of_its_worker_runs_again_on_another(self):
        workers = self.workers("worker-a", "worker-b")
        obeys = 'trap "echo saved; exit 0" TERM; echo up; sleep 1000 & wait'
        job = self.cluster.submit(command_job(
            "sh", "-c", f'test "$DP_GENERATION" = 2 && echo whole && exit 0; {obeys}'))
        self.cluster.follow_until(job, "up")
        workers[self.await_generation(job, 1)[1][0]].stop()
        self.assertEqual(self.cluster.wait(job), 0, self.cluster.dpctl("describe", job).stdout)
        self.assertIn("whole", self.cluster.dpctl("logs", job, check=0).stdout)
        past = self.cluster.describe(job)["pastFailures"]
        self.assertEqual([one["failureClass"] for one in past], ["infra"], past)
        self.cluster.dpctl("cancel", job, check=0)

    def test_cancelling_between_generations_ends_the_job_as_cancelled(self):
        self.workers("worker-a")
        job = self.cluster.submit(command_job("sleep", "1000", restart={"maxRestarts": 9}))
        self.await_generation(job, 1)
        self.cluster.dpctl("drain", "worker-a", "--reason", "no next generation", check=0)
        os.kill(self.cluster.rank_pid(job, 0), signal.SIGKILL)
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["restarts"] == 1))
        self.assertEqual(self.cluster.describe(job)["state"], "PENDING")
        self.cluster.dpctl("cancel", job, check=0)
        self.assertEqual(self.cluster.wait(job), 103)

    def test_run_goes_on_with_the_next_generation_and_says_so(self):
        self.workers("worker-a")
        done = self.cluster.dpctl("run", "--max-restarts", 1, "--", "sh", "-c",
                                  "echo life $DP_GENERATION; [ $DP_GENERATION = 2 ]", check=0)
        self.assertIn("life 2", done.stdout)
        self.assertIn("generation 1 failed: rank 0", done.stderr)

    @unittest.skipIf(pytorch.why_not(), pytorch.why_not())
    def test_a_pytorch_program_restarts_as_under_torchrun(self):
        self.workers("worker-a", "worker-b")
        done = self.cluster.dpctl("run", "--nnodes", 2, "--max-restarts", 1, "--", PYTHON,
                                  PROGRAMS / "once_more.py", check=0, timeout_s=WITHIN_S)
        self.assertEqual(done.stdout.count("restart 1 of 1, sum 3"), 2, done.stdout)


class IsolationTest(RestartCase):
    OPTIONS = {"lease": "2s"}

    def counting_job(self, **command):
        """A command that counts into a file. Returns the job and a function that reads the
        count."""
        path = self.cluster.dir / "count"
        script = f"i=0; while :; do i=$((i+1)); echo $i > {path}.new; mv {path}.new {path}; sleep 0.1; done"
        job = self.cluster.submit(command_job("sh", "-c", script, **command))
        self.await_generation(job, 1)
        return job, lambda: int(path.read_text()) if path.exists() else 0

    def test_a_command_does_not_outlive_touch_with_the_coordinator(self):
        self.workers("worker-a")
        job, _ = self.counting_job()
        pid = self.cluster.describe(job)["ranks"][0]["pid"]
        self.cluster.coordinator.freeze()
        self.assertTrue(eventually(lambda: not alive(pid)))
        self.cluster.coordinator.thaw()
        self.await_generation(job, 2)
        past = self.cluster.describe(job)["pastFailures"][0]
        self.assertEqual(past["failureClass"], "infra")
        self.assertIn("lost touch with the coordinator", past["message"])
        self.cluster.dpctl("cancel", job, check=0)

    def test_with_continue_it_does(self):
        self.workers("worker-a")
        job, count = self.counting_job(onIsolation="continue")
        self.cluster.coordinator.freeze()
        goal = count() + 40  # longer than the lease
        self.assertTrue(eventually(lambda: count() > goal))
        self.cluster.coordinator.thaw()
        self.assertEqual(self.await_generation(job, 1)[0], 1)
        self.cluster.dpctl("cancel", job, check=0)

    def test_a_coordinator_that_is_away_is_no_partition(self):
        self.workers("worker-a")
        job, count = self.counting_job()
        pid = self.cluster.describe(job)["ranks"][0]["pid"]
        self.cluster.coordinator.kill()
        goal = count() + 40
        self.assertTrue(eventually(lambda: count() > goal))
        self.cluster.coordinator = self.cluster.start_coordinator(self.cluster.address)
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["state"] == "RUNNING"))
        described = self.cluster.describe(job)
        self.assertEqual((described["generation"], described["ranks"][0]["pid"]), (1, pid))
        self.cluster.dpctl("cancel", job, check=0)
        # Until then the program still counts, in a file of the cluster.
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["state"] == "CANCELLED"))


if __name__ == "__main__":
    unittest.main()
