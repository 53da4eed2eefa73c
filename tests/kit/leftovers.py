"""Leaves nothing behind when a fixture's start fails."""

import contextlib


@contextlib.contextmanager
def closed_on_error(owner):
    """with closed_on_error(self): the rest of __init__. Needed because a caller whose
    constructor raises has nothing to close."""
    try:
        yield
    except BaseException:
        owner.close()
        raise
