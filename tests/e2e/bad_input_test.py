"""Users' mistakes, and the answers of dpctl and the servers."""

import json
import struct
import subprocess
import unittest

from kit.cluster import AS_SELF, BIN, Cluster, eventually
from kit.idx_data import train_job, write_idx


class JobFileTest(unittest.TestCase):
    """dpctl alone checks these: no coordinator runs."""

    def refuse(self, text, *expected):
        done = subprocess.run([BIN / "dpctl", "submit", "--dry-run", "/dev/stdin"], input=text,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        for part in expected:
            self.assertIn(part, done.stderr)

    def job(self, **changes):
        return json.dumps({**train_job("/data"), **changes})

    def train(self, **changes):
        return json.dumps(train_job("/data", **changes))

    def test_not_yaml(self):
        self.refuse("a: [1, 2", "/dev/stdin:1")

    def test_an_unknown_field_names_its_line_and_the_nearest_field(self):
        self.refuse("apiVersion: dp/v1\nkind: Job\nname: x\nrank: 2\n", ":4", "'rank'", "'ranks'")

    def test_a_wrong_type_names_the_value(self):
        self.refuse(self.job(ranks="two"), "two")

    def test_a_negative_size(self):
        self.refuse(self.train(globalBatchSize=-5), "globalBatchSize", "-5")

    def test_layers_that_do_not_fit_name_the_layer_and_both_shapes(self):
        layers = [{"flatten": {}}, {"linear": {"in": 100, "out": 10}}]
        with Cluster() as cluster:
            data = write_idx(cluster.dir / "data")
            job = train_job(data, model={"layers": layers})
            self.refuse(json.dumps(job), "linear1", "100", "784")


class ServersTest(unittest.TestCase):
    def test_a_coordinator_that_is_not_there_ends_dpctl_with_104(self):
        done = subprocess.run([BIN / "dpctl", "--coordinator", "127.0.0.1:1", "--timeout", "1s",
                               "ps"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 104)
        self.assertIn("127.0.0.1:1", done.stderr)

    def test_every_program_says_its_version(self):
        lines = [subprocess.run([BIN / program, "--version"], capture_output=True, text=True,
                                check=True).stdout
                 for program in ("dpctl", "dp-coordinator", "dp-worker", "dp-trainer")]
        self.assertEqual([line.split()[0] for line in lines],
                         ["dpctl", "dp-coordinator", "dp-worker", "dp-trainer"])
        self.assertEqual(len({line.split()[1] for line in lines}), 1)

    def test_every_program_has_help(self):
        for program in ("dpctl", "dp-coordinator", "dp-worker", "dp-trainer", "dp-guard"):
            with self.subTest(program):
                help_ = subprocess.run([BIN / program, "--help"], capture_output=True, text=True)
                self.assertEqual((help_.returncode, help_.stderr), (0, ""))
                self.assertIn(program, help_.stdout)

    def test_output_that_cannot_be_written_ends_dpctl_with_1(self):
        with Cluster() as cluster, open("/dev/full", "w") as full:
            done = subprocess.run([*cluster.dpctl_command(), "ps"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("No space left on device", done.stderr)

    def test_a_closed_standard_output_is_told(self):
        done = subprocess.run(["sh", "-c", '"$0" --version >&-', BIN / "dpctl"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Bad file descriptor", done.stderr)

    def run_until_nobody_reads(self, cluster, *flags):
        """The exit code and errors of a run whose output is closed after its first line."""
        with subprocess.Popen([*cluster.dpctl_command(), "run", *flags, "--", "yes"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            run.stdout.readline()
            run.stdout.close()
            errors = run.stderr.read()
        return run.returncode, errors

    def test_a_run_that_nobody_reads_detaches(self):
        with Cluster() as cluster:
            cluster.worker()
            code, errors = self.run_until_nobody_reads(cluster)
            self.assertEqual(code, 101)
            self.assertIn("'dpctl logs -f 1' follows it again", errors)
            self.assertEqual(cluster.describe(1)["state"], "RUNNING")
            cluster.dpctl("cancel", 1, check=0)

    def test_a_local_run_that_nobody_reads_is_no_success(self):
        with Cluster() as cluster:
            code, errors = self.run_until_nobody_reads(cluster, "--local")
            self.assertEqual(code, 103)
            self.assertIn("the job ends with its coordinator and workers", errors)

    def test_a_lost_worker_shows_its_silence(self):
        with Cluster(lease="1s") as cluster:
            cluster.worker().kill()

            def lost():
                items = json.loads(cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
                return items[0]["state"] == "LOST" and items[0]
            self.assertGreaterEqual(eventually(lost)["silentForMs"], 1000)

    def test_an_unknown_job_ends_dpctl_with_102(self):
        with Cluster() as cluster:
            self.assertIn("nosuch", cluster.dpctl("describe", "nosuch", check=102).stderr)

    def test_pytorchs_stores_beyond_loopback_need_the_word(self):
        done = subprocess.run([BIN / "dp-coordinator", "--tcpstore-listen", "0.0.0.0:0", "--data-dir",
                               "/nonexistent"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--tcpstore-insecure", done.stderr)

    def test_a_tls_name_that_is_no_name_of_a_host_is_refused(self):
        for name in ("", "*.example.org", "a b", "head:7070"):
            done = subprocess.run([BIN / "dp-coordinator", "--tls-name", name, "--data-dir", "/nonexistent"],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, name)
            self.assertIn(f"--tls-name '{name}' is no name of a host and no address", done.stderr)

    def test_a_worker_without_a_credential_is_told_how_to_get_one(self):
        done = subprocess.run([BIN / "dp-worker", "--coordinator", "192.0.2.1:7070"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no credential for the coordinator at 192.0.2.1:7070", done.stderr)

    def test_a_data_directory_in_use_is_refused(self):
        with Cluster() as cluster:
            done = subprocess.run([BIN / "dp-coordinator", "--listen", "127.0.0.1:0", "--data-dir",
                                   cluster.dir / "coordinator"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("in use", done.stderr)

    def refused_worker(self, *options, code=2):
        done = subprocess.run([BIN / "dp-worker", "--coordinator", "127.0.0.1:1", *options],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_a_worker_whose_address_the_host_may_get_later_ends_with_1_so_that_its_unit_tries_again(self):
        self.assertIn("192.0.2.1 is no address", self.refused_worker("--address", "192.0.2.1", code=1))

    def test_a_worker_that_could_run_nothing_does_not_start(self):
        self.assertIn("/nowhere does not exist", self.refused_worker("--trainer", "/nowhere"))
        self.assertIn("0.0.0.0 stands for every", self.refused_worker("--address", "0.0.0.0"))
        self.assertIn("port 72606", self.refused_worker("--coordinator", "127.0.0.1:72606"))
        self.assertIn("the token is empty", self.refused_worker("--join", ""))

    def test_a_worker_with_a_name_or_labels_that_none_can_have_does_not_start(self):
        name = self.refused_worker("--name", "a b")
        self.assertTrue(name.startswith("dp-worker: --name: 'a b' is no worker name"), name)
        self.assertIn("the key a is given twice",
                      self.refused_worker("--label", "a=1", "--label", "a=2"))

    def second_of_the_name(self, cluster):
        return cluster.program(BIN / "dp-worker", "--coordinator", cluster.address, "--name",
                               "gpu-a", "--state-dir", cluster.dir / "second", *AS_SELF, wait=False)

    def test_a_second_daemon_of_a_live_name_waits_for_it_and_the_first_goes_on(self):
        with Cluster() as cluster:
            first = cluster.worker(name="gpu-a")
            second = self.second_of_the_name(cluster)
            self.assertTrue(eventually(lambda: "event=name_taken" in second.log()))
            for part in ("worker name gpu-a is taken", "127.0.0.1", "--name"):
                self.assertIn(part, second.log())
            job = cluster.submit(train_job(write_idx(cluster.dir / "data"), ranks=1))
            self.assertEqual(cluster.wait(job), 0)
            first.stop()
            self.assertTrue(eventually(lambda: "event=registered" in second.log()))

    def test_a_killed_daemon_comes_back_under_its_name_at_once(self):
        with Cluster(lease="1h") as cluster:
            cluster.worker(name="gpu-a").kill()
            again = cluster.worker(name="gpu-a")
            self.assertIn("dp-worker gpu-a registered", again.line)

    def test_without_its_state_directory_it_waits_for_the_end_of_the_lease(self):
        with Cluster(lease="1s") as cluster:
            cluster.worker(name="gpu-a").kill()
            other = self.second_of_the_name(cluster)
            self.assertTrue(eventually(lambda: "event=registered" in other.log()))
            self.assertIn("event=name_taken", other.log())
            self.assertNotIn("event=name_of_a_live_daemon", other.log())

    def test_a_trainer_started_by_hand_says_what_to_do(self):
        done = subprocess.run([BIN / "dp-trainer"], capture_output=True, text=True, env={})
        self.assertEqual(done.returncode, 2)
        self.assertIn("dpctl", done.stderr)


class DataTest(unittest.TestCase):
    """The ranks find these errors; the job fails with the reason in its last lines."""

    def fail_with(self, spoil, *expected):
        with Cluster() as cluster:
            cluster.worker(slots=1)
            data = write_idx(cluster.dir / "data")
            spoil(data)
            job = train_job(data, ranks=1)
            job["train"]["data"]["classes"] = 10
            job = cluster.submit(job)
            self.assertEqual(cluster.wait(job), 1)
            lines = "\n".join(cluster.describe(job)["failure"]["lastLines"])
            for part in expected:
                self.assertIn(part, lines)

    def test_a_missing_file_names_both_spellings(self):
        self.fail_with(lambda data: (data / "train-labels-idx1-ubyte").unlink(),
                       "train-labels-idx1-ubyte", ".gz")

    def test_a_truncated_file_names_both_sizes(self):
        def spoil(data):
            path = data / "train-images-idx3-ubyte"
            path.write_bytes(path.read_bytes()[:1000])
        self.fail_with(spoil, "train-images-idx3-ubyte", "1568000", "984")

    def test_a_wrong_magic(self):
        def spoil(data):
            path = data / "train-images-idx3-ubyte"
            path.write_bytes(struct.pack(">I", 0xdead) + path.read_bytes()[4:])
        self.fail_with(spoil, "train-images-idx3-ubyte", "magic")

    def test_a_label_out_of_range(self):
        def spoil(data):
            path = data / "train-labels-idx1-ubyte"
            path.write_bytes(path.read_bytes()[:-1] + bytes([17]))
        self.fail_with(spoil, "/data/train-labels-idx1-ubyte", "17")

    def test_a_loss_that_is_no_number_fails_the_job_and_names_the_step(self):
        with Cluster() as cluster:
            for name in ("worker-a", "worker-b"):
                cluster.worker(slots=1, name=name)
            data = write_idx(cluster.dir / "data")
            wild = {"sgd": {"learningRate": 1e30, "momentum": 0.9}}
            job = cluster.submit(train_job(data, ranks=2, epochs=50, optimizer=wild))
            self.assertEqual(cluster.wait(job), 1)
            failure = cluster.describe(job)["failure"]
            self.assertRegex("\n".join(failure["lastLines"]), r"the loss is -?(nan|inf) at step \d+")


if __name__ == "__main__":
    unittest.main()
