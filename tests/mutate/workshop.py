"""A copy of the tree with a build folder of its own, in which mutants are compiled."""

import hashlib
import os
import pathlib
import shutil
import subprocess

from graph import Graph

# Compiles file by file, so that a mutant needs one object; without optimisation and warnings, for
# speed.
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Mutate", "-DCMAKE_UNITY_BUILD=OFF", "-DCMAKE_CXX_FLAGS=-O0 -w"]
# A source takes seconds at -O0, but the first build compiles everything that the test programs
# contain.
BUILD_WITHIN_S = 2 * 3600
DECIDING = (".cc", ".h", ".cu", ".proto", ".txt", ".cmake", ".scenario")


class Workshop:
    """`folder` holds the copy in tree/ and its build in build/. The next run uses both again."""

    def __init__(self, top, folder, jobs):
        self._top, self._jobs = pathlib.Path(top), jobs
        self.tree, self.build_folder = folder / "tree", folder / "build"
        self._log = folder / "build.log"
        self._originals = {}
        self._variables = {**os.environ, "CCACHE_BASEDIR": str(self.tree), "CCACHE_NOHASHDIR": "1"}

    def prepare(self):
        """Brings the copy up to date with the tree, and returns the build's graph."""
        self._originals = {}
        self.tree.mkdir(parents=True, exist_ok=True)
        listed = subprocess.run(["git", "-C", self._top, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout
        wanted = {name for name in listed.split("\0") if name and (self._top / name).is_file()}
        for name in wanted:
            self._take_over(name)
        self._remove_others(wanted)
        subprocess.run(["cmake", "-S", self.tree, "-B", self.build_folder, *CONFIGURE], check=True,
                       stdout=subprocess.DEVNULL, env=self._variables)
        return Graph((self.build_folder / "build.ninja").read_text(), self.tree)

    def _take_over(self, name):
        """Copies a file only if it differs, so that nothing is rebuilt needlessly."""
        source, target = self._top / name, self.tree / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def _remove_others(self, wanted):
        for folder, _, names in os.walk(self.tree):
            for name in names:
                path = pathlib.Path(folder, name)
                if str(path.relative_to(self.tree)) not in wanted:
                    path.unlink()

    def digest(self):
        """A hash of all files that decide whether a mutant is caught."""
        whole = hashlib.sha256()
        for path in sorted(self.tree.rglob("*")):
            if path.is_file() and path.suffix in DECIDING:
                whole.update(f"{path.relative_to(self.tree)}\0".encode() + path.read_bytes())
        return whole.hexdigest()[:16]

    def put(self, path, text):
        target = self.tree / path
        if target.read_text() != text:  # unchanged files must not be compiled again
            target.write_text(text)

    def original(self, path):
        """The text that `prepare` found; the tree may change meanwhile."""
        if path not in self._originals:
            self._originals[path] = (self.tree / path).read_text()
        return self._originals[path]

    def build(self, target):
        """Returns whether the build succeeded; the tools' output is in build.log."""
        with open(self._log, "wb") as log:
            done = subprocess.run(["ninja", "-C", self.build_folder, f"-j{self._jobs}", target], stdout=log,
                                  stderr=subprocess.STDOUT, timeout=BUILD_WITHIN_S, env=self._variables)
        return done.returncode == 0

    def log(self):
        return self._log.read_text(errors="replace")
