"""A root tree (own_root.py) whose process 1 is a real systemd."""

import own_root
from kit.cluster import eventually

PACKAGES = ("systemd", "systemd-sysv", "bash", "coreutils", "dash", "grep", "procps", "util-linux")
# Units that need hardware, or the kernel's own file systems.
MASKED = ("sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-udevd.service",
          "dev-hugepages.mount", "systemd-logind.service")
PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"


class SystemdRoot(own_root.OwnRoot):
    """Raises LookupError if one of its packages is not installed here."""

    def __init__(self, *more_packages):
        super().__init__()
        try:
            self.add_packages(*PACKAGES, *more_packages)
        except LookupError:
            self.close()
            raise
        self.write("etc/passwd", PASSWD)
        self.write("etc/group", "root:x:0:\nnogroup:x:65534:\n")
        self.write("etc/machine-id", "")
        units = self.path / "etc/systemd/system"
        units.mkdir(parents=True, exist_ok=True)
        for unit in MASKED:
            (units / unit).symlink_to("/dev/null")

    def start(self):
        """Boots; returns when systemd is up."""
        self.boot(["/lib/systemd/systemd", "--log-target=console", "--show-status=no",
                   "--unit=multi-user.target"])
        if not eventually(self._up):
            raise AssertionError(f"systemd did not come up:\n{self.console.read_text()}")

    def _up(self):
        state = self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip()
        return state in ("running", "degraded")

    def shown(self, unit, name):
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).stdout.strip()
