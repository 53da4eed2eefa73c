"""The tarball of `make dist`: its contents, its requirements, and that it runs on a host with only
glibc.

    DP_BIN=build-dist/bin dist_test.py
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

import kubernetes_test  # noqa: E402
import own_root  # noqa: E402
from kit.cluster import eventually  # noqa: E402
from kit.idx_data import train_job, write_idx  # noqa: E402

VERSION = re.search(r"project\(dp VERSION ([\d.]+)", (TOP / "CMakeLists.txt").read_text()).group(1)
NAME = f"dp-{VERSION}-linux-x86_64"
ARCHIVE = TOP / "dist" / f"{NAME}.tar.gz"
PROGRAMS = {"dp-coordinator", "dp-worker", "dp-guard", "dp-trainer", "dpctl"}
# Only in a build with CUDA, with the libraries that it needs on its host.
GPU_TRAINER = "dp-trainer-cuda"
CUDA = re.compile(r"lib(cudart|cublas|cublasLt|cudnn\w*)\.so\.\d+$")
GLIBC_MAX = (2, 36)
# These libraries are linked statically. A program that needs one of them was linked wrongly.
STATIC = re.compile(r"lib(grpc|gpr|upb|protobuf|absl|sqlite3|yaml-cpp|ssl|crypto|cares|re2|z)\b")


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *map(str, arguments)], check=True,
                          capture_output=True, text=True).stdout


class Unpacked(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with tarfile.open(ARCHIVE) as tar:
            cls.entries = tar.getmembers()
            tar.extractall(folder.name)
        cls.root = pathlib.Path(folder.name) / NAME
        cls.libraries = sorted((cls.root / "lib/dp").iterdir())
        cls.programs = {each.name for each in (cls.root / "bin").iterdir()}
        cls.library = cls.root / f"lib/libdp_distributed.so.{VERSION}"
        cls.elf = [*(cls.root / "bin" / name for name in sorted(cls.programs)), *cls.libraries,
                   *sorted(cls.root.glob("tests/*")), cls.library]

    def test_it_has_programs_units_manifests_examples_completions_and_guides(self):
        self.assertEqual(self.programs - {GPU_TRAINER}, PROGRAMS)
        for path in ("README.md", "lib/systemd/system/dp-coordinator.service",
                     "lib/systemd/system/dp-firewall.service",
                     "lib/systemd/system/dp-worker.service", "lib/sysusers.d/dp.conf",
                     "share/dp/systemd/dp.nft", "share/dp/systemd/dp-worker-users.conf",
                     "share/dp/systemd/dp-worker-sandbox.conf", "share/dp/systemd/worker.env",
                     "share/dp/kubernetes/Containerfile",
                     "share/dp/kubernetes/overlays/gpu/kustomization.yaml",
                     "share/dp/kubernetes/components/cert-manager/kustomization.yaml",
                     "share/dp/examples/fashion_mnist_cnn.yaml",
                     "share/bash-completion/completions/dpctl",
                     "share/zsh/site-functions/_dpctl", "share/doc/dp/docs/deploy-systemd.md"):
            self.assertTrue((self.root / path).is_file(), path)

    def test_a_program_outside_the_tree_builds_against_it_and_runs(self):
        with tempfile.TemporaryDirectory() as build:
            for command in (["cmake", "-S", self.root / "share/dp/examples/library/train", "-B", build,
                             f"-DCMAKE_PREFIX_PATH={self.root}"], ["cmake", "--build", build]):
                subprocess.run(command, check=True, capture_output=True)
            done = subprocess.run([f"{build}/train", f"file://{build}/meeting", "1", "0"], check=True, capture_output=True,
                                  text=True)
        self.assertEqual(done.stdout, "rank 0 of 1: y = 2.000 x + 1.000\n")

    def test_tests_for_gpus_come_with_their_trainer(self):
        tests = {path.name for path in self.root.glob("tests/*")}
        expected = {"group_rank", "ddp_overhead", "step_cost"} if GPU_TRAINER in self.programs else set()
        self.assertEqual(tests & {"group_rank", "ddp_overhead", "step_cost"}, expected)

    def test_units_name_the_programs_where_the_guide_unpacks_them(self):
        for unit in ("dp-coordinator", "dp-worker"):
            text = (self.root / f"lib/systemd/system/{unit}.service").read_text()
            self.assertIn(f"ExecStart=/opt/dp/bin/{unit} ", text)
            self.assertIn("EnvironmentFile=-/etc/dp/", text)

    def test_the_checksum_beside_it_is_its_own(self):
        digest, name = ARCHIVE.with_name(f"{ARCHIVE.name}.sha256").read_text().split()
        self.assertEqual(name, ARCHIVE.name)
        self.assertEqual(digest, hashlib.sha256(ARCHIVE.read_bytes()).hexdigest())

    def test_nothing_needs_a_newer_glibc_than_promised(self):
        for path in self.elf:
            for version in re.findall(r"GLIBC_([\d.]+)", readelf("--version-info", path)):
                found = tuple(map(int, version.split(".")))
                self.assertLessEqual(found, GLIBC_MAX, path.name)

    def test_libraries_are_looked_for_in_the_tarball_alone(self):
        for path in self.elf:
            found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", readelf("--dynamic", path))
            expected = ["$ORIGIN/../lib/dp"] if path.parent.name in ("bin", "tests") else []
            if path == self.library:
                expected = ["$ORIGIN/dp"]
            self.assertEqual(found, expected, path.name)

    def test_what_is_needed_is_glibc_or_bundled(self):
        bundled = {path.name for path in self.libraries}
        for path in self.elf:
            for name in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path)):
                glibc = re.match(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv))\.so\.\d$", name)
                cuda = path.name not in PROGRAMS and CUDA.match(name)
                self.assertTrue(glibc or cuda or name in bundled, f"{path.name} needs {name}")
                if path.parent.name in ("bin", "tests"):
                    self.assertNotRegex(name, STATIC)

    def test_every_library_that_is_not_ours_comes_with_its_licence(self):
        licences = {path.stem for path in (self.root / "share/doc/dp/licences").iterdir()}
        for package in ("libgrpc-dev", "libprotobuf-dev", "libabsl-dev", "libsqlite3-dev", "libssl-dev",
                        "libcli11-dev", "libgomp1", "libgloo0", "libdnnl2"):
            self.assertIn(package, licences)
        projects = {re.split(r"[_.]", path.name)[0] for path in self.libraries}
        self.assertGreaterEqual(len(licences), len(projects))

    def test_files_are_sorted_and_of_one_time_and_owner(self):
        names = [entry.name.split("/") for entry in self.entries]
        self.assertEqual(names, sorted(names))
        self.assertEqual(len({entry.mtime for entry in self.entries}), 1)
        self.assertEqual({(entry.uid, entry.gid) for entry in self.entries}, {(0, 0)})

    def test_the_same_build_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as again:
            subprocess.run([TOP / "scripts/dist", pathlib.Path(os.environ["DP_BIN"]).parent, again],
                           check=True, capture_output=True)
            same = (pathlib.Path(again) / ARCHIVE.name).read_bytes() == ARCHIVE.read_bytes()
            self.assertTrue(same, "two archives of one build differ")


REASON = own_root.why_not()


@unittest.skipIf(REASON, REASON)
class EmptyRoot(unittest.TestCase):
    """A root tree with the tarball, glibc, /proc and a /tmp, but not even a shell."""

    @classmethod
    def setUpClass(cls):
        cls.tree = own_root.OwnRoot()
        cls.addClassCleanup(cls.tree.close)
        libc = [path for path in own_root.files_of(["libc6"]) if re.search(r"/[^/]*\.so[.\d]*$", path)]
        cls.tree.add_files(path for path in libc if "/gconv/" not in path)
        with tarfile.open(ARCHIVE) as tar:
            tar.extractall(cls.tree.path / "opt")
        (cls.tree.path / "opt/dp").symlink_to(NAME)
        write_idx(cls.tree.path / "srv/data")
        cls.tree.write("srv/train.json", json.dumps(
            train_job("/srv/data", output={"weights": "/tmp/weights.safetensors"})))
        # Process 1 keeps the tree's namespaces alive.
        cls.tree.boot(["/opt/dp/bin/dp-coordinator", "--listen", "127.0.0.1:7070", "--data-dir",
                       "/var/coordinator"])

    def dpctl(self, *words):
        return self.tree.run("/opt/dp/bin/dpctl", *words, check=False)

    def test_every_program_starts(self):
        for name in PROGRAMS - {"dp-guard", "dp-trainer"}:
            self.assertEqual(self.tree.run(f"/opt/dp/bin/{name}", "--version").stdout.split()[0], name)

    def test_a_training_of_two_ranks_runs(self):
        done = self.dpctl("run", "--local", "/srv/train.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"test_accuracy=0\.9|test_accuracy=1")

    def test_a_command_job_runs(self):
        done = self.dpctl("run", "--local", "--nproc-per-node", "2", "--", "/opt/dp/bin/dpctl",
                          "--version")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("dpctl "), 2, done.stdout)


@unittest.skipIf(REASON, REASON)
class Image(unittest.TestCase):
    """The Containerfile's tree, run as Kubernetes would run it: as the manifests' user, on a
    read-only root, with only the volumes to write to. The manifests are used unchanged: the
    service's name is a name of this host."""

    @classmethod
    def setUpClass(cls):
        kubernetes_test.setUpModule()
        objects = kubernetes_test.render("cpu")
        coordinator, worker = (kubernetes_test.pods(objects)[name] for name in ("dp-coordinator", "dp-worker"))
        cls.user = coordinator["spec"]["securityContext"]["runAsUser"]
        cls.coordinator, cls.worker = map(kubernetes_test.container_of, (coordinator, worker))
        cls.tree = own_root.OwnRoot()
        cls.addClassCleanup(cls.tree.close)
        cls.tree.add_packages("base-files", "coreutils", "dash", "libc-bin")
        cls.tree.write("etc/hosts", "127.0.0.1 localhost dp-coordinator\n")
        cls.carry_out_containerfile()

    @classmethod
    def carry_out_containerfile(cls):
        top = cls.tree.path
        with tarfile.open(ARCHIVE) as tar:
            lines = tar.extractfile(f"{NAME}/share/dp/kubernetes/Containerfile").read().decode()
        version = re.search(r"^ARG VERSION=(.*)$", lines, re.MULTILINE).group(1)
        for line in lines.replace("${VERSION}", version).splitlines():
            if line.startswith("ADD "):
                _, source, target = line.split()
                with tarfile.open(ARCHIVE.parent / source) as tar:
                    tar.extractall(f"{top}{target}")
            elif line.startswith("RUN "):
                target, link = re.fullmatch(r"RUN ln -s (\S+) (/\S+)", line).groups()
                (top / link[1:]).symlink_to(target)

    def test_what_the_pods_run_carries_out_a_job(self):
        volumes = {mount["mountPath"] for container in (self.coordinator, self.worker)
                   for mount in container["volumeMounts"]}
        self.tree.boot([*self.coordinator["command"], *self.coordinator["args"]],
                       container=own_root.Container(self.user, tuple(sorted(volumes))))
        ready = self.coordinator["readinessProbe"]["exec"]["command"]
        self.assertTrue(eventually(lambda: self.exec(*ready).returncode == 0), self.tree.console.read_text())
        token = self.exec("/opt/dp/bin/dpctl", "token", "-o", "name").stdout.strip()
        values = {"WORKER": "dp-worker-0", "POD_IP": "127.0.0.1", "DP_JOIN_TOKEN": token}
        environment = {"PATH": "/usr/bin", **{each["name"]: each.get("value") or values[each["name"]]
                                              for each in self.worker["env"]}}
        command = [word.replace("$(WORKER)", "dp-worker-0").replace("$(POD_IP)", "127.0.0.1")
                   for word in [*self.worker["command"], *self.worker["args"]]]
        with open(self.tree.console, "ab") as console:
            worker = subprocess.Popen(self.tree.inside(*command, user=self.user), stderr=console,
                                      stdout=console, env=environment)
        self.addCleanup(worker.wait, 60)
        self.addCleanup(worker.terminate)
        done = self.exec(
            "/opt/dp/bin/dpctl", "run", "--nproc-per-node", "2", "--", "sh", "-c",
            "echo rank $RANK of $WORLD_SIZE; id -u; touch /tmp/x || exit; ! touch /opt/x")
        self.assertEqual(done.returncode, 0, done.stderr + self.tree.console.read_text())
        self.assertIn("rank 1 of 2", done.stdout)
        self.assertIn(f"] {self.user}", done.stdout)
        self.assertIn("cannot touch '/opt/x': Read-only file system", done.stdout + done.stderr)

    def exec(self, *words):
        """Runs a command as `kubectl exec` does in the coordinator's pod."""
        return self.tree.run(*words, user=self.user, check=False, environment={
            each["name"]: each["value"] for each in self.coordinator["env"]})


if __name__ == "__main__":
    unittest.main()
