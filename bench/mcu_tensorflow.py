"""The child of mcu_peers.py for TensorFlow: reads the network as JSON, trains it, prints its memory."""

from __future__ import annotations

import json
import resource
import sys


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def build(tf, layers: list[dict], classes: int):
    """The same layers with batch norms, as a Keras model."""
    k = tf.keras.layers
    start = tf.keras.Input((128, 128, 3))
    values, last = {}, start
    for layer in layers:
        if "add" in layer:
            last = values[layer["name"]] = k.Add()([values[name] for name in layer["add"]])
            continue
        x = values.get(layer["input"], start)
        options = {"strides": layer["stride"], "padding": "same", "use_bias": False}
        made = (
            k.DepthwiseConv2D(layer["kernel"], **options)
            if layer["depthwise"]
            else k.Conv2D(layer["outputs"], layer["kernel"], **options)
        )
        x = k.BatchNormalization()(made(x))
        last = values[layer["name"]] = k.ReLU(6.0)(x) if layer["clamp"] else x
    return tf.keras.Model(start, k.Dense(classes)(k.GlobalAveragePooling2D()(last)))


def main() -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.reduce_sum(tf.zeros((2, 2)))
    before = megabytes()
    model = build(tf, json.load(sys.stdin), 10)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss=loss)
    for _ in range(3):
        model.train_on_batch(tf.zeros((1, 128, 128, 3)), tf.zeros((1,), tf.int32))
    peak = megabytes()
    print(json.dumps({"process_mb": peak, "step_mb": peak - before, "version": tf.__version__}))


if __name__ == "__main__":
    main()
