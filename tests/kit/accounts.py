"""Accounts for a test: a user database of its own, which only programs in a mount namespace see."""

import contextlib
import grp
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

from kit.leftovers import closed_on_error

# Free on usual hosts, whose accounts end at 60000.
ANN, BOB = 61001, 61002
TEAM = 61010
BIND = ('mount --bind "$1" /etc/passwd && mount --bind "$2" /etc/group && shift 2 && exec "$@"')


def why_not():
    """Why there can be no accounts here; empty if there can."""
    if os.geteuid() != 0:
        return "needs root to run jobs as other users"
    for program in ("unshare", "setpriv"):
        if shutil.which(program) is None:
            return f"needs the program {program}"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        return "mount namespaces cannot be made here"
    return ""


class Accounts(contextlib.ExitStack):
    """with Accounts() as accounts: a program started with prefix=accounts.prefix finds the accounts
    ann, who is also in the group team, bob, and toor, whose uid is 0."""

    def __init__(self):
        super().__init__()
        with closed_on_error(self):
            self._dir = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory(prefix="dp-users-")))
            self._dir.chmod(0o755)  # for the users' programs
            own = [("ann", ANN), ("bob", BOB), ("toor", 0)]
            self.passwd = self._file("passwd", [":".join(map(str, each)) for each in pwd.getpwall()] + [
                f"{name}:x:{uid}:{uid}::{self.home(name)}:/bin/sh" for name, uid in own])
            self.group = self._file("group", [f"{each.gr_name}:x:{each.gr_gid}:{','.join(each.gr_mem)}"
                                              for each in grp.getgrall()] + [
                f"ann:x:{ANN}:", f"bob:x:{BOB}:", f"team:x:{TEAM}:ann"])
            for name, uid in own[:2]:
                self.home(name).mkdir(mode=0o700)
                os.chown(self.home(name), uid, uid)
        self.prefix = ["unshare", "-m", "sh", "-c", BIND, "sh", str(self.passwd), str(self.group)]

    def _file(self, name, lines):
        path = self._dir / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def home(self, name):
        return self._dir / name

    def remove(self, name):
        """Removes an account, for programs that run, too."""
        kept = [line for line in self.passwd.read_text().splitlines() if not line.startswith(f"{name}:")]
        self.passwd.write_text("\n".join(kept) + "\n")

    def prefix_as(self, name):
        """As prefix, with the rights of an account alone."""
        return [*self.prefix, "setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups",
                "--reset-env"]


class Person:
    """Somebody who has logged in to a cluster; their configuration is below `folder`."""

    def __init__(self, cluster, name, folder):
        self._cluster = cluster
        self._env = {"XDG_CONFIG_HOME": str(folder / f"config-of-{name}")}
        granted = cluster.dpctl("grant", "user", name, "-o", "json", check=0).stdout
        self.dpctl("login", "--token", json.loads(granted)["token"], check=0)

    def dpctl(self, *args, **how):
        return self._cluster.dpctl(*args, env=self._env, **how)

    def submit(self, job):
        path = self._cluster.dir / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        return self.dpctl("submit", path, "-o", "name", check=0).stdout.strip().split("/")[-1]
