"""A program for TPUs as TensorFlow's guide begins it. Without a TPU the default strategy trains."""

import json
import os

import tensorflow as tf

try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
except ValueError:
    strategy = tf.distribute.get_strategy()

with strategy.scope():
    weight = tf.Variable(1.0)
with tf.GradientTape() as tape:
    loss = weight * weight
weight.assign_sub(0.25 * tape.gradient(loss, weight))
task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
print(f"rank {task}: {strategy.num_replicas_in_sync} replica, weight {weight.numpy()}")
