"""With this folder in PYTHONPATH, every interpreter aborts at shutdown, as PyTorch 2.15
sometimes does."""

import atexit
import os

atexit.register(os.abort)
