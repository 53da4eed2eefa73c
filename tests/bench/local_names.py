"""Loopback's host name, for PyTorch. Its servers look up the name of each client that connects,
and serve nobody meanwhile. With a slow or missing name service each lookup takes seconds."""

import contextlib
import subprocess
import tempfile

HOSTS = "127.0.0.1 localhost {name}\n::1 localhost {name}\n::ffff:127.0.0.1 localhost {name}\n"


@contextlib.contextmanager
def local_names():
    """with local_names() as prefix: a command behind the prefix finds loopback's name in
    /etc/hosts, in a mount namespace of its own. The prefix is empty if no namespace can be made."""
    with tempfile.NamedTemporaryFile("w", prefix="dp-hosts-") as hosts:
        name = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout
        hosts.write(HOSTS.format(name=name.strip()))
        hosts.flush()
        prefix = ["unshare", "--mount", "--map-root-user", "sh", "-c",
                  'mount --bind "$0" /etc/hosts && exec "$@"', hosts.name]
        usable = subprocess.run([*prefix, "true"], capture_output=True).returncode == 0
        yield prefix if usable else []
