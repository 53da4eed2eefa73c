"""The cgroups that a cluster's daemons find on their host.

By default v2 cgroups are writable wherever the tests can make any. Each daemon then gives each
of its ranks a cgroup, as on a user's host. DP_TEST_CGROUPS=none hides all cgroups, so daemons
rely on their guards. Tests whose names end with _without_cgroups set it.
"""

import contextlib
import os
import unittest

from kit import own_cgroups

HIDDEN = os.environ.get("DP_TEST_CGROUPS") == "none"


def tracking():
    """How a daemon with default settings tracks processes on such a host."""
    return "guard" if HIDDEN or own_cgroups.why_not("cgroup2") else "cgroup2"


class HostCgroups(contextlib.ExitStack):
    """with HostCgroups() as cgroups: a daemon started with prefix=cgroups.prefix is on such a
    host."""

    def __init__(self):
        super().__init__()
        if HIDDEN:
            reason = own_cgroups.why_not_hidden()
            if reason:
                raise unittest.SkipTest(reason)
            self.prefix = own_cgroups.WITHOUT_CGROUPS
        elif own_cgroups.why_not("cgroup2"):
            self.prefix = []
        else:
            self.own = self.enter_context(own_cgroups.OwnCgroups("cgroup2"))
            self.prefix = self.own.prefix
