"""Builds the Containerfile with buildah, on a base made of installed packages, so no registry is
needed.

buildah keeps everything in the test's own folder, and has its own mounts and network.
"""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

import own_root

TOP = pathlib.Path(__file__).resolve().parents[2]
CONTAINERFILE = TOP / "deploy/kubernetes/Containerfile"
BASE_PACKAGES = ("base-files", "coreutils", "dash", "grep", "libc-bin")
ACCEPT_ALL = '{"default": [{"type": "insecureAcceptAnything"}]}'

REASON = own_root.why_not() or ("" if shutil.which("buildah") else "needs buildah")


@unittest.skipIf(REASON, REASON)
class ImageTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="dp-image-")))
        (self.dir / "policy.json").write_text(ACCEPT_ALL)
        with own_root.OwnRoot() as base:
            base.add_packages(*BASE_PACKAGES)
            base.write("etc/passwd", "root:x:0:0::/root:/bin/sh\n")
            subprocess.run(["tar", "-C", base.path, "-cf", self.dir / "base.tar", "."], check=True)

    def buildah(self, script):
        """Runs shell lines in which $B is buildah; returns their output."""
        text = f"""set -e
            mount -t tmpfs tmpfs /run
            B='buildah --root {self.dir}/root --runroot {self.dir}/run --storage-driver vfs'
            P='--signature-policy {self.dir}/policy.json'
            cd {self.dir}
            {script}"""
        done = subprocess.run(["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", text],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_buildah_makes_an_image_that_has_the_programs_and_is_not_root(self):
        self.buildah(f"""
            base=$($B from scratch)
            $B add -q $base base.tar /
            $B commit -q $P $base localhost/base
            $B bud $P --isolation chroot --pull-never -f {CONTAINERFILE} --build-arg BASE=localhost/base \\
              -t dp {TOP}/dist""")
        said = self.buildah("$B run --isolation chroot $($B from --pull-never dp) -- "
                            "sh -c 'id -u; dpctl --version; dp-worker --version'")
        self.assertRegex(said, r"^65532\ndpctl [\d.]+\ndp-worker [\d.]+\n$")


if __name__ == "__main__":
    unittest.main()
