"""The cgroups that a cluster's daemons find on their host.

By default the host is one where cgroups of v2 may be written, wherever the tests can make any: then each
daemon gives each of its ranks a cgroup, as it does for a user. DP_TEST_CGROUPS=none, as in the tests whose
names end with _without_cgroups, hides all cgroups, so that daemons rely on their guards.
"""

import contextlib
import os
import unittest

import own_cgroups

HIDDEN = os.environ.get("DP_TEST_CGROUPS") == "none"


def tracking():
    """How a daemon with default settings tracks processes there."""
    return "guard" if HIDDEN or own_cgroups.why_not("cgroup2") else "cgroup2"


class HostCgroups(contextlib.ExitStack):
    """with HostCgroups() as cgroups: a daemon started with prefix=cgroups.prefix is on such a host."""

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
