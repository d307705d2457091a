"""A training step of MLP 784-128-dropout-10 with Adam at batch 32, in JAX or onnxruntime-training. The child side.

    python peer_steps.py FRAMEWORK FOLDER

FOLDER holds torch, which onnxruntime.training imports. The first line on stdout is "ready VERSION", or says what is
wrong; then each line with a number on stdin makes that many steps, and the answer is the CPU milliseconds per step.
Nothing here imports insitu: this file runs in a Python that may have nothing but its framework.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

INPUTS, HIDDEN, CLASSES, BATCH, DROP, RATE = 784, 128, 10, 32, 0.2, 1e-5


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"w1": (INPUTS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, CLASSES), "b2": (CLASSES,)}
    return {name: (rng.standard_normal(s) * 0.05).astype(np.float32) for name, s in shapes.items()}


def batch() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(1).standard_normal((BATCH, INPUTS)).astype(np.float32)
    return x, np.arange(BATCH) % CLASSES


def jax_step() -> tuple[str, Callable[[], None]]:
    """One jitted function; its arguments are given away, so that it updates in place."""
    import jax
    import jax.numpy as jnp

    def loss(p, x, y, key):
        h = jax.nn.relu(x @ p["w1"] + p["b1"])
        h = jnp.where(jax.random.bernoulli(key, 1 - DROP, h.shape), h / (1 - DROP), 0)
        return -jnp.take_along_axis(jax.nn.log_softmax(h @ p["w2"] + p["b2"]), y[:, None], 1).mean()

    def update(state, x, y):
        p, m, v, t, key = state
        key, own = jax.random.split(key)
        g, t = jax.grad(loss)(p, x, y, own), t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1 / (1 - 0.9**t), 1 / (1 - 0.999**t)
        p = jax.tree.map(lambda p, m, v: p - RATE * a * m / (jnp.sqrt(b * v) + 1e-8), p, m, v)
        return p, m, v, t, key

    compiled, (x, y) = jax.jit(update, donate_argnums=0), map(jnp.asarray, batch())
    zeros = lambda: {name: jnp.zeros(w.shape) for name, w in weights().items()}  # noqa: E731
    first = {name: jnp.asarray(w) for name, w in weights().items()}
    state = [(first, zeros(), zeros(), jnp.float32(0), jax.random.key(0))]

    def run() -> None:
        state[0] = jax.block_until_ready(compiled(state[0], x, y))

    return jax.__version__, run


def onnxruntime_step() -> tuple[str, Callable[[], None]]:
    """The artifacts that its own tool makes from a forward model."""
    import onnxruntime
    from onnxruntime.training import artifacts
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    folder = tempfile.mkdtemp()
    loss, rule = artifacts.LossType.CrossEntropyLoss, artifacts.OptimType.AdamW
    trained = list(weights())
    artifacts.generate_artifacts(forward_model(), trained, loss=loss, optimizer=rule, artifact_directory=folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    at = {p.stem: str(p) for p in Path(folder).iterdir()}
    module = Module(at["training_model"], CheckpointState.load_checkpoint(at["checkpoint"]), at["eval_model"],
                    session_options=options)  # fmt: skip
    optimizer, (x, y) = Optimizer(at["optimizer_model"], module), batch()
    optimizer.set_learning_rate(RATE)
    module.train()

    def run() -> None:
        module(x, y)
        optimizer.step()
        module.lazy_reset_grad()

    return onnxruntime.__version__, run


def forward_model():
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    stored = [numpy_helper.from_array(w, name) for name, w in weights().items()]
    stored += [
        numpy_helper.from_array(np.array(DROP, np.float32), "share"),
        numpy_helper.from_array(np.array(True), "training"),
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["a"]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("Dropout", ["h", "share", "training"], ["d", "mask"]),
        helper.make_node("Gemm", ["d", "w2", "b2"], ["logits"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", INPUTS])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])
    graph = helper.make_graph(nodes, "mlp", [x], [logits], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    return model


STEPS = {"jax": jax_step, "onnxruntime": onnxruntime_step}


def main() -> None:
    framework, folder = sys.argv[1:]
    sys.path.append(folder)
    try:
        version, run = STEPS[framework]()
        run()
    except Exception as e:
        print(type(e).__name__, str(e).replace("\n", " "), flush=True)
        return
    print("ready", version, flush=True)
    for line in sys.stdin:
        start = time.process_time()
        for _ in range(int(line)):
            run()
        print(1000 * (time.process_time() - start) / int(line), flush=True)


if __name__ == "__main__":
    main()
