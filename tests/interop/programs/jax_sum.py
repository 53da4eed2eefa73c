"""Sums over two JAX processes, each with one CPU device, which find each other by the
environment."""

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

jax.distributed.initialize()
mine = jnp.array([float(jax.process_index() + 1)])
everyones = multihost_utils.process_allgather(mine)
print(f"rank {jax.process_index()} of {jax.process_count()}: "
      f"{jax.device_count()} devices, sum {everyones.sum():.0f}")
