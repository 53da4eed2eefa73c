"""dp's library as a user has it: installed somewhere, and used by projects outside the tree."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from kit.cluster import BIN
from kit.waiting import TIMEOUT_S

WARNINGS = "-Wall -Wextra -Wpedantic -Wshadow -Werror"


def run(*command, cwd=None, env=None):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=cwd,
                          env={**os.environ, **(env or {})})


def install(root):
    """Installs the library alone, and moves it: a package must work wherever it is unpacked."""
    first = root.with_name("installed-first")
    done = run("cmake", "--install", BIN.parent, "--prefix", first, "--component", "library", "--strip")
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    shutil.move(first, root)


def configure(source, build, root):
    """Configures a project against the package in `root`."""
    return run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={root}", "-DCMAKE_BUILD_TYPE=Release",
               f"-DCMAKE_CXX_FLAGS={WARNINGS}")


def build(source, build_dir, root):
    """Builds a project; returns its build folder."""
    for done in (configure(source, build_dir, root), run("cmake", "--build", build_dir)):
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
    return build_dir


def build_program(name, text, folder, root, libraries="", components="distributed"):
    """Builds a program of one source, which is the text, with further libraries; returns its path."""
    source = folder / f"{name}-source"
    source.mkdir()
    (source / f"{name}.cc").write_text(text)
    (source / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject({name} LANGUAGES CXX)\n"
        f"find_package(dp REQUIRED COMPONENTS {components})\n"
        f"add_executable({name} {name}.cc)\ntarget_link_libraries({name} PRIVATE dp::distributed {libraries})\n")
    return build(source, folder / name, root) / name


def installed_program(test_class, source):
    """Installs the library for the tests of a class, and builds a program of one source against it. The class gets
    `dir`, a folder that ends with it, `root`, where the library is, and `program`."""
    test_class.dir = pathlib.Path(test_class.enterClassContext(tempfile.TemporaryDirectory(prefix=f"dp-{source.stem}-")))
    test_class.root = test_class.dir / "root"
    install(test_class.root)
    test_class.program = build_program(source.stem, source.read_text(), test_class.dir, test_class.root)


def fake_kernels(test_class, fake):
    """Puts a module of a fake GPU in the place of the installed library's kernels, which need a real one. The class gets
    `kernels`, the file, and `has_kernels`: without the CUDA toolkit the library has none, and does not load the file."""
    library = next(test_class.root.rglob("libdp_distributed.so.*.*.*"))
    test_class.kernels = library.with_name(library.name.replace(".so.", "_cuda-") + ".so")
    test_class.has_kernels = test_class.kernels.exists()
    shutil.copyfile(fake, test_class.kernels)


def exported_names(library):
    """The names that a shared library exports, without their version."""
    symbols = run("nm", "--dynamic", "--defined-only", "--demangle", library).stdout.splitlines()
    return [line.split(" ", 2)[2].removesuffix("@@DP_0") for line in symbols]
