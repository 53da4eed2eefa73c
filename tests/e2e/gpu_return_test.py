"""A GPU's slot becomes free when the driver reports its memory free, not when its rank has
exited; tested with a fake driver library."""

import json
import os
import unittest

from kit.cluster import Cluster, eventually
from kit.gpu_fakes import NVML, why_no_nvml

MIB = 1 << 20


@unittest.skipIf(why_no_nvml(), why_no_nvml())
class GpuReturnTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.memory = self.cluster.dir / "memory"
        self.use(0)

    def use(self, mib):
        """Makes the fake report this much GPU memory in use."""
        changed = self.cluster.dir / "memory.new"
        changed.write_text(str(mib * MIB))
        changed.rename(self.memory)

    def gpu_says(self, words):
        changed = self.cluster.dir / "memory.new"
        changed.write_text(words)
        changed.rename(self.memory)

    def start_daemon(self, *options, path=os.environ["PATH"]):
        return self.cluster.worker(
            name="gpu-host", options=options,
            env={"LD_LIBRARY_PATH": str(NVML), "FAKE_NVML": str(self.memory), "PATH": path})

    def run_job(self, name, *argv):
        return self.cluster.submit({"apiVersion": "dp/v1", "kind": "Job", "name": name,
                                    "restart": {"infra": 0}, "command": {"argv": list(argv)}})

    def state(self, job):
        return self.cluster.describe(job)["state"]

    def worker(self):
        return json.loads(self.cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"][0]

    def test_a_job_is_over_and_its_slot_free_when_the_memory_is(self):
        self.start_daemon()
        job = self.run_job("first", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES; exec sleep 1000")
        self.cluster.follow_until(job, "on GPU-aaaa")
        self.use(1200)
        self.cluster.dpctl("cancel", job, check=0)
        ended = eventually(lambda: self.cluster.describe(job)["ranks"][0]["state"] == "EXITED")
        self.assertTrue(ended, self.cluster.dpctl("describe", job).stdout)
        self.assertEqual((self.worker()["freeSlots"], self.worker()["unhealthySlots"]), (0, []))
        self.use(1)
        self.assertEqual(self.cluster.wait(job), 103)
        self.assertEqual(self.worker()["freeSlots"], 1)

    def test_a_gpu_that_is_not_let_go_is_shown_with_the_reason_and_used_once_it_is_free(self):
        self.use(3000)
        daemon = self.start_daemon("--gpu-free-within", 1)
        shown = eventually(lambda: self.worker()["unhealthySlots"])
        reason = "GPU 0 (GPU-aaaa) holds 3000 MiB that no rank uses"
        self.assertEqual(shown, [{"slot": 0, "reason": reason}], daemon.log())
        self.assertIn(f"slot 0: {reason}", self.cluster.dpctl("workers").stdout)
        job = self.run_job("waits", "true")
        self.assertEqual(self.state(job), "PENDING")
        self.cluster.restart_coordinator()
        self.assertEqual(self.worker()["unhealthySlots"], shown)
        self.use(0)
        self.assertEqual(self.cluster.wait(job), 0)
        self.assertEqual(self.worker()["unhealthySlots"], [])

    def test_a_driver_whose_library_crashes_is_not_loaded_and_the_gpu_is_found_all_the_same(self):
        self.gpu_says("0 abort_at_start=1")
        smi = self.cluster.dir / "nvidia-smi"
        smi.write_text("#!/bin/sh\necho 00000000:C1:00.0, GPU-aaaa, NVIDIA H100\n")
        smi.chmod(0o700)
        daemon = self.start_daemon(path=f"{self.cluster.dir}:{os.environ['PATH']}")
        self.assertIn("libnvidia-ml.so.1 crashes, by signal 6", daemon.log())
        self.assertIn("by=nvidia-smi installed=1 usable=1", daemon.log())
        self.assertEqual(self.worker()["state"], "READY")

    def test_a_gpu_that_is_not_in_order_is_shown_with_its_figures_and_the_reason(self):
        self.gpu_says(f"{3 * MIB} busy=5 temperature=41 errors=2 pending=1 failed=0")
        daemon = self.start_daemon()
        shown = eventually(lambda: self.worker()["unhealthySlots"])
        self.assertEqual(len(shown), 1, daemon.log())
        self.assertIn("GPU 0 (GPU-aaaa) has had 2 uncorrected memory errors", shown[0]["reason"])
        (gpu,) = eventually(lambda: self.worker()["gpuList"])
        self.assertEqual((gpu["memoryUsedBytes"], gpu["temperatureCelsius"], gpu["xid"]),
                         (3 * MIB, 41, 0))
        self.assertEqual((gpu["healthy"], gpu["readBy"]), (False, "nvml"))
        table = self.cluster.dpctl("workers", "--gpus").stdout
        self.assertRegex(table, r"gpu-host +0 +GPU-aaaa +NVIDIA H100 +81920 MiB +3 MiB +5% +41 C ")
        self.cluster.restart_coordinator()
        self.assertEqual(eventually(lambda: self.worker()["gpuList"]), [gpu])

    def test_errors_that_are_allowed_leave_a_gpu_in_use(self):
        self.gpu_says(f"0 errors=2")
        self.start_daemon("--gpu-errors-max", 2)
        self.assertEqual(self.cluster.wait(self.run_job("runs", "true")), 0)
        self.assertEqual(self.worker()["unhealthySlots"], [])


if __name__ == "__main__":
    unittest.main()
