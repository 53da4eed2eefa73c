"""Tests which trainer a rank gets on a host with a GPU. The driver library is a fake, and the
trainer only prints where it would compute."""

import ctypes
import json
import unittest

from kit.cluster import BIN, Cluster
from kit.gpu_fakes import NVML, PASSES, TRAINER, TRAINER_ON_HOST, losses, why_no_nvml, why_no_trainer_on_host
from kit.idx_data import train_job, write_idx

FAILS = "echo 'nccl: missing: no such file; install it'; exit 1"
# The CPU stands in for the GPU.
ON_CPU = f"""echo "computes on $DP_DEVICE with $CUDA_VISIBLE_DEVICES"
unset DP_DEVICE
exec {BIN / 'dp-trainer'}"""
CUDA_TRAINER = BIN / "dp-trainer-cuda"


def why_no_trainer_without_driver():
    if not CUDA_TRAINER.exists():
        return "dp-trainer-cuda has not been built: no CUDA toolkit"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    return "this host has a GPU's driver"


@unittest.skipIf(why_no_nvml(), why_no_nvml())
class GpuTrainerTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        (self.cluster.dir / "memory").write_text("0")
        self.data = write_idx(self.cluster.dir / "data")

    def start_daemon(self, check, slots=1, run=ON_CPU):
        programs = self.cluster.dir / "programs"
        programs.mkdir()
        (programs / "dp-trainer").symlink_to(BIN / "dp-trainer")
        trainer = programs / "dp-trainer-cuda"
        trainer.write_text(TRAINER.format(check=check, run=run))
        trainer.chmod(0o755)
        return self.cluster.worker(
            name="gpu-host", slots=slots, options=("--trainer", programs / "dp-trainer"),
            env={"LD_LIBRARY_PATH": str(NVML), "FAKE_NVML": str(self.cluster.dir / "memory")})

    def submit(self, ranks=1, **train):
        return self.cluster.submit(train_job(self.data, ranks=ranks, **train))

    def resume(self, job, **train):
        path = self.cluster.dir / "resumes.json"
        path.write_text(json.dumps(train_job(self.data, ranks=1, **train)))
        named = self.cluster.dpctl("submit", path, "--resume", f"{job}@latest", "-o", "name", check=0)
        return named.stdout.strip().split("/")[-1]

    def logs(self, job):
        return self.cluster.dpctl("logs", job).stdout

    def trains_on_gpus(self):
        (worker,) = json.loads(self.cluster.dpctl("workers", "-o", "json").stdout)["items"]
        return worker["trainsOnGpus"]

    def test_a_rank_on_a_gpu_slot_gets_the_trainer_whose_self_check_passed(self):
        daemon = self.start_daemon(PASSES)
        self.assertTrue(self.trains_on_gpus(), daemon.log())
        for device in ("auto", "cuda"):
            job = self.submit(device=device)
            self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
            self.assertIn("computes on cuda with GPU-aaaa", self.logs(job))
        job = self.submit(device="cpu")
        self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
        self.assertNotIn("computes on", self.logs(job))
        self.assertNotIn("trains_on_cpu", self.logs(job))

    def test_all_ranks_train_on_gpus_or_none_does(self):
        self.start_daemon(PASSES, slots=2)
        job = self.submit(ranks=2)
        self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
        self.assertNotIn("computes on", self.logs(job))
        self.assertIn("event=trains_on_cpu rank=0 reason=\"not every rank", self.logs(job))
        self.assertNotIn("event=trains_on_cpu rank=1", self.logs(job))  # its slot has no GPU

    def test_without_one_a_job_that_leaves_it_open_trains_on_cpus_and_another_waits_with_the_remedy(self):
        daemon = self.start_daemon(FAILS)
        self.assertFalse(self.trains_on_gpus())
        self.assertIn("event=cuda_trainer", daemon.log())
        job = self.submit()
        self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
        self.assertIn("event=trains_on_cpu", self.logs(job))
        self.assertIn("nccl: missing: no such file; install it", self.logs(job))
        waits = self.cluster.describe(self.submit(device="cuda"))
        self.assertEqual(waits["state"], "PENDING")
        self.assertEqual(waits["pendingReasons"][0],
                         "needs 1 GPU slot to train on, 0 free of 0 in all on 0 workers")
        self.assertIn("no trainer uses the GPUs of gpu-host: 'dpctl workers --gpus' says why",
                      waits["pendingReasons"][1])
        table = self.cluster.dpctl("workers", "--gpus").stdout
        self.assertIn("no trainer uses it: ", table)
        self.assertIn("nccl: missing: no such file; install it", table)

    @unittest.skipIf(why_no_trainer_without_driver(), why_no_trainer_without_driver())
    def test_a_gpu_that_cannot_be_opened_ends_the_job_at_once_with_what_to_look_at(self):
        self.start_daemon(PASSES, run=f"exec {CUDA_TRAINER}")
        job = self.submit(device="cuda")
        self.assertEqual(self.cluster.wait(job), 1)
        self.assertRegex(self.logs(job), "the GPU cannot be used: (this host has no NVIDIA driver|built without CUDA)")
        self.assertIn("'dp-trainer-cuda --self-check' on this host says more", self.logs(job))
        self.assertNotIn("peer_lost", self.logs(job))

    @unittest.skipIf(why_no_trainer_without_driver(), why_no_trainer_without_driver())
    def test_a_run_on_this_machine_alone_does_not_wait_for_a_gpu_or_a_trainer_that_is_not_here(self):
        job = self.cluster.dir / "job.json"
        job.write_text(json.dumps(train_job(self.data, ranks=1, device="cuda")))
        # Hides any driver of this host.
        nothing = self.cluster.dpctl("run", "--local", job, check=100,
                                     env={"LD_LIBRARY_PATH": str(NVML), "FAKE_NVML": "/dev/null",
                                          "CUDA_VISIBLE_DEVICES": ""})
        self.assertIn("the job needs 1 GPU (train.device: cuda), and this machine has 0 that ranks may use "
                      "(CUDA_VISIBLE_DEVICES names none of the 1 here)", nothing.stderr)
        no_trainer = self.cluster.dpctl("run", "--local", job, check=100,
                                        env={"LD_LIBRARY_PATH": str(NVML),
                                             "FAKE_NVML": str(self.cluster.dir / "memory")})
        self.assertIn("no trainer can do so on this machine: ", no_trainer.stderr)
        self.assertIn("driver: missing: libcuda.so.1", no_trainer.stderr)

    @unittest.skipIf(why_no_trainer_on_host(), why_no_trainer_on_host())
    def test_a_job_on_a_gpu_takes_the_steps_of_one_on_a_cpu_and_goes_on_there_which_is_told(self):
        self.start_daemon(PASSES, run=f"exec {TRAINER_ON_HOST}")
        saves = {"checkpoint": {"dir": str(self.cluster.dir / "saved"), "everySteps": 4}}
        steps = {"maxSteps": 8, "evaluateEvery": 0}
        on_gpu = self.submit(device="cuda", **steps, **saves)
        self.assertEqual(self.cluster.wait(on_gpu), 0, self.logs(on_gpu))
        self.assertIn("training starts on a GPU of unknown model in float32, backend local", self.logs(on_gpu))
        self.assertIn("event=gpu_graph_captured", self.logs(on_gpu))
        on_cpu = self.submit(device="cpu", **steps)
        self.assertEqual(self.cluster.wait(on_cpu), 0, self.logs(on_cpu))
        self.assertIn("training starts on cpu in float32", self.logs(on_cpu))
        expected = losses(self.cluster, on_cpu)
        self.assertEqual(len(expected), 8)
        for loss, other in zip(losses(self.cluster, on_gpu), expected, strict=True):
            self.assertAlmostEqual(loss, other, delta=1e-4 * other)

        # A device or precision that changes the bits is accepted, and reported.
        for train, told in (({"device": "cpu"}, "the device was a GPU of unknown model and is cpu"),
                            ({"precision": "bf16"}, "train.precision was float32 and is bf16")):
            job = self.resume(on_gpu, maxSteps=10, evaluateEvery=0, **train)
            self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
            self.assertIn("goes on from step 8", self.logs(job))
            self.assertIn(f"({told}: the bits differ from here on)", self.logs(job))
        same = self.resume(on_gpu, maxSteps=10, evaluateEvery=0, device="cuda")
        self.assertEqual(self.cluster.wait(same), 0, self.logs(same))
        self.assertNotIn("the bits differ", self.logs(same))

    @unittest.skipIf(why_no_trainer_on_host(), why_no_trainer_on_host())
    def test_what_only_gpus_compute_with_is_computed_with_there(self):
        self.start_daemon(PASSES, run=f"exec {TRAINER_ON_HOST}")
        for deterministic in (True, False):
            job = self.submit(precision="bf16", deterministic=deterministic, maxSteps=2, evaluateEvery=0)
            self.assertEqual(self.cluster.wait(job), 0, self.logs(job))
            self.assertIn("in bf16", self.logs(job))
            self.assertEqual(len(losses(self.cluster, job)), 2)

    @unittest.skipIf(why_no_trainer_on_host(), why_no_trainer_on_host())
    def test_a_batch_that_does_not_fit_the_card_ends_the_job_with_what_to_lower(self):
        self.start_daemon(PASSES, run=f"exec {TRAINER_ON_HOST}")
        job = self.submit(device="cuda", globalBatchSize=2000000000)
        self.assertEqual(self.cluster.wait(job), 1)
        (last,) = self.cluster.describe(job)["failure"]["lastLines"]
        self.assertIn("train.globalBatchSize 2000000000, of which this rank takes 2000000000 samples a step, is too "
                      "much for the memory of a GPU of unknown model: lower it", last)

    def test_gpus_are_counted_as_the_daemon_counts_them(self):
        env = {"LD_LIBRARY_PATH": str(NVML), "FAKE_NVML": str(self.cluster.dir / "memory")}
        ran = self.cluster.dpctl("run", "--local", "--nproc-per-node", "gpu", "--", "sh", "-c",
                                 "echo world $WORLD_SIZE on $CUDA_VISIBLE_DEVICES", env=env)
        self.assertIn("world 1 on GPU-aaaa", ran.stdout)


if __name__ == "__main__":
    unittest.main()
