"""Jobs of several ranks on GPUs. Each rank is a process whose kernels run on the host, with
fakes of the libraries of CUDA and NCCL. Tests whole steps, and ranks that die or hang."""

import hashlib
import json
import os
import pathlib
import signal
import unittest

from kit.cluster import BIN, Cluster, eventually
from kit.gpu_fakes import NVML, PASSES, TRAINER, TRAINER_ON_HOST, losses, why_no_nvml, why_no_trainer_on_host
from kit.idx_data import train_job, write_idx

LIBRARIES = BIN.parent / "tests/fake_cuda"
CARD = "NVIDIA H100"
STEPS = 12
KILLED_AT = 7


def why_not():
    if not (LIBRARIES / "libnccl.so.2").exists():
        return "dp_fake_nccl has not been built: no headers of CUDA or NCCL"
    return why_no_nvml() or why_no_trainer_on_host()


@unittest.skipIf(why_not(), why_not())
class GpuRanksTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        (self.cluster.dir / "memory").write_text("0")
        self.data = write_idx(self.cluster.dir / "data", learnable=False)
        programs = self.cluster.dir / "programs"
        programs.mkdir()
        (programs / "dp-trainer").symlink_to(BIN / "dp-trainer")
        trainer = programs / "dp-trainer-cuda"
        run = f"export LD_LIBRARY_PATH={LIBRARIES}\nexec {TRAINER_ON_HOST}"
        trainer.write_text(TRAINER.format(check=PASSES, run=run))
        trainer.chmod(0o755)
        # Two daemons, like two hosts with a GPU each.
        for name, card in (("gpu-a", CARD), ("gpu-b", "NVIDIA A100" if self.on_different_cards() else CARD)):
            self.cluster.worker(
                name=name, options=("--trainer", programs / "dp-trainer", "--pass-env", "FAKE_CUDA_*"),
                env={"LD_LIBRARY_PATH": str(NVML), "FAKE_NVML": str(self.cluster.dir / "memory"),
                     "FAKE_CUDA_MODEL": card, "FAKE_CUDA_HOST": name})

    def on_different_cards(self):
        return "different_cards" in self.id()

    def job(self, name, device="cuda", job=None, **train):
        weights = {"weights": str(self.cluster.dir / f"{name}.safetensors")}
        # Several buckets, between which a step is cut.
        described = train_job(self.data, name=name, device=device, maxSteps=STEPS, evaluateEvery=0, bucketCapMb=0.2,
                              output=weights, **train)
        return {**described, **(job or {})}

    def saving(self, name, stops_at, **job):
        """A job that saves its state, and one of whose ranks stops in its first generation."""
        saves = {"dir": str(self.cluster.dir / "saved"), "everySteps": 2}
        return self.job(name, checkpoint=saves, job={**job, "env": {"TRAINER_STOPS_AT": stops_at}})

    def weights(self, name):
        return hashlib.sha256(pathlib.Path(self.cluster.dir / f"{name}.safetensors").read_bytes()).hexdigest()

    def run_job(self, job):
        number = self.cluster.submit(job)
        self.assertEqual(self.cluster.wait(number), 0, self.logs(number))
        return number

    def logs(self, job):
        return self.cluster.dpctl("logs", job, "--generation", "all").stdout

    def steps(self, job, generation):
        """The steps that rank 0 has reported."""
        lines = self.cluster.dpctl("logs", job, "--metrics", "--generation", generation, "--rank", "0", "-o", "json",
                                   check=0).stdout.splitlines()
        told = [json.loads(json.loads(line)["line"]) for line in lines]
        return [metric["step"] for metric in told if metric["event"] == "step"]

    def test_ranks_on_gpus_take_the_steps_of_ranks_on_cpus_with_the_same_bits_each_time(self):
        on_gpus = self.run_job(self.job("first"))
        self.assertIn(f"rank 1 of 2: training starts on {CARD} in float32, backend nccl", self.logs(on_gpus))
        self.assertRegex(self.logs(on_gpus), r"event=gpu_graph_captured graphs=[2-9]")
        self.assertNotIn("cards_differ", self.logs(on_gpus))
        self.run_job(self.job("second"))
        self.assertEqual(self.weights("first"), self.weights("second"))
        expected = losses(self.cluster, self.run_job(self.job("cpus", device="cpu")))
        self.assertEqual(len(expected), STEPS)
        for loss, other in zip(losses(self.cluster, on_gpus), expected, strict=True):
            self.assertAlmostEqual(loss, other, delta=1e-4 * other)

    def test_a_rank_that_is_killed_is_named_and_the_job_ends_as_if_it_had_not_been(self):
        self.run_job(self.job("undisturbed"))
        job = self.cluster.submit(self.saving("killed", f"1:all-reduce:{KILLED_AT}", restart={"maxRestarts": 1}))
        self.cluster.follow_until(job, "fault point")
        os.kill(self.cluster.rank_pid(job, 1), signal.SIGKILL)
        self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
        (failure,) = self.cluster.describe(job)["pastFailures"]
        self.assertEqual((failure["failureClass"], failure["rank"], failure["signal"]), ("user", 1, 9))
        self.assertIn("goes on from step", self.logs(job))
        self.assertEqual(self.weights("killed"), self.weights("undisturbed"))

    def test_a_rank_that_hangs_is_named_by_its_peer_and_the_job_goes_on(self):
        self.run_job(self.job("undisturbed"))
        job = self.cluster.submit(self.saving("hangs", f"1:step:{KILLED_AT}", detectWithin="5s"))
        self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
        (failure,) = self.cluster.describe(job)["pastFailures"]
        self.assertEqual((failure["failureClass"], failure["rank"]), ("hang", 1), failure["message"])
        self.assertEqual(self.weights("hangs"), self.weights("undisturbed"))

    def test_a_rank_that_is_alone_saves_and_leaves_for_two_when_there_is_another_gpu(self):
        self.cluster.dpctl("drain", "gpu-b", "--reason", "later", check=0)
        described = self.job("grows", nodes="1:2", epochs=10**6, job={"growAfter": "1s"},
                             checkpoint={"dir": str(self.cluster.dir / "saved"), "everySteps": 100})
        # Without a last step, the job is still training when it is asked to leave, however fast it
        # is.
        del described["train"]["maxSteps"], described["ranks"]
        job = self.cluster.submit(described)
        self.cluster.follow_until(job, "training starts")
        self.cluster.dpctl("undrain", "gpu-b", check=0)
        self.assertTrue(eventually(lambda: self.cluster.describe(job)["generation"] == 2 and self.steps(job, 2)),
                        self.logs(job))
        self.cluster.dpctl("cancel", job, check=0)
        self.cluster.wait(job)
        (left,) = self.cluster.describe(job)["pastFailures"]
        self.assertEqual((left["failureClass"], left["countedAs"]), ("preempt", None), left["message"])
        # The job has saved every step before it left.
        steps = self.steps(job, 1) + self.steps(job, 2)
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertIn("rank 0 of 1: training starts on NVIDIA H100 in float32, backend local", self.logs(job))
        self.assertIn("(ranks was 1 and is 2: the bits differ from here on)", self.logs(job))
        self.assertIn("rank 1 of 2: training starts on NVIDIA H100 in float32, backend nccl", self.logs(job))

    def test_ranks_train_on_while_the_coordinator_restarts(self):
        self.run_job(self.job("undisturbed"))
        job = self.cluster.submit(self.job("goes-on"))
        self.cluster.follow_until(job, "training starts")
        self.cluster.restart_coordinator()
        self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
        self.assertEqual(self.cluster.describe(job)["generation"], 1)
        self.assertEqual(self.weights("goes-on"), self.weights("undisturbed"))

    def test_ranks_on_different_cards_train_and_the_user_is_told_who_has_which(self):
        logs = self.logs(self.run_job(self.job("mixed")))
        self.assertIn('event=cards_differ cards="rank 0 on worker gpu-a: NVIDIA H100; '
                      'rank 1 on worker gpu-b: NVIDIA A100"', logs)
        self.assertIn("rank 1 of 2: training starts on NVIDIA A100 in float32", logs)


if __name__ == "__main__":
    unittest.main()
