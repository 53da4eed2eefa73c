"""One step of MultiWorkerMirroredStrategy: sums gradients over the workers; replicas stay equal."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
with strategy.scope():
    weight = tf.Variable([0.0, 0.0])


@tf.function
def step():
    def on_replica():
        worker = tf.distribute.get_replica_context().replica_id_in_sync_group
        one_hot = tf.one_hot(worker, 2)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weight * one_hot)
        gradient = tape.gradient(loss, weight)
        total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradient)
        return weight.assign_sub(total)
    return strategy.run(on_replica)


step()
print(f"rank {resolver.task_id} of {strategy.num_replicas_in_sync}: weight {weight.numpy().tolist()}")
