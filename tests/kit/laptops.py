"""People with logins of their own, for tests of who may do what."""

import os
import re
import subprocess

from kit.cluster import TIMEOUT_S


class Laptop:
    """A directory of settings with one login. Without a login dpctl would find the administrator of
    this machine, so the person logs in first: with `token`, or with one that an administrator
    grants."""

    def __init__(self, cluster, name, role="user", token=None):
        self._cluster = cluster
        self._dir = cluster.dir / f"laptop-{id(self)}"
        self.log_in(token or grant(cluster, role, name))

    def log_in(self, token):
        self.dpctl("login", stdin=token, check=0)

    def login_dir(self):
        [login] = self._dir.glob("dp/credentials/*")
        return login

    def env(self):
        return {"XDG_CONFIG_HOME": str(self._dir)}

    def dpctl(self, *args, stdin=None, check=None):
        return dpctl_with(self._cluster, self.env(), *args, stdin=stdin, check=check)

    def follow(self, job):
        """A running `dpctl logs -f`."""
        return subprocess.Popen([*self._cluster.dpctl_command(), "logs", "-f", job], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=_environment(self.env()))


def grant(cluster, role, name):
    """The token with which this person logs in."""
    return token_in(cluster.dpctl("grant", role, name, check=0).stdout)


def token_in(text):
    [token] = set(re.findall(r"dpj1\.[\w.=-]+", text))
    return token


def dpctl_with(cluster, env, *args, stdin=None, check=None):
    """dpctl with these variables; nothing is typed but `stdin`."""
    done = subprocess.run([*cluster.dpctl_command(), *map(str, args)], text=True,
                          capture_output=True, input=stdin or "", timeout=TIMEOUT_S,
                          env=_environment(env))
    if check is not None and done.returncode != check:
        raise AssertionError(f"dpctl {args} ended with {done.returncode}, not {check}\n"
                             f"{done.stdout}\n{done.stderr}")
    return done


def _environment(more):
    return {**os.environ, **more}
