"""The memory of a training step of the same network in PyTorch and in TensorFlow, each in its own process.

Both train the float twin of mcunet-5fps (with batch norms, as before folding), in full, at batch 1. The system reports
the process's peak memory; training added that peak minus the peak before the network was made. TensorFlow is measured
if INSITU_TENSORFLOW names a Python that has it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

from bench.photos import ROOT, folder

CLASSES, STEPS = 10, 3


def peers() -> dict[str, dict]:
    """Framework -> {process_mb, step_mb, version}, or {why} if it was not measured."""
    found = {"PyTorch": _child([sys.executable, "-m", "bench.mcu_peers"], "")}
    python = os.environ.get("INSITU_TENSORFLOW")
    if not python:
        found["TensorFlow"] = {"why": "not measured: INSITU_TENSORFLOW does not name a Python with it"}
        return found
    found["TensorFlow"] = _child([python, str(ROOT / "bench" / "mcu_tensorflow.py")], json.dumps(layers_of_twin()))
    return found


def _child(command: list[str], text: str) -> dict:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode:
        return {"why": f"failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def layers_of_twin() -> list[dict]:
    """The network as plain data: convolutions and residual adds, by name."""
    from insitu import load

    graph, found = load(folder("models") / "mcunet-5fps.pkl").graph, []
    for n in graph.nodes:
        if n.op.name == "add_s8":
            found.append({"name": n.name, "add": [n.inputs[0].name, n.inputs[1].name]})
        elif n.op.name in ("conv2d_s8", "depthwise2d_s8"):
            w, depthwise = n.inputs[1], n.op.name == "depthwise2d_s8"
            found.append({
                "name": n.name, "input": n.inputs[0].name, "depthwise": depthwise, "outputs": n.output.shape[3],
                "kernel": w.shape[0] if depthwise else w.shape[1], "stride": n.attrs["stride"][0],
                "clamp": n.output.type.zero == -128,
            })  # fmt: skip
    return found


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    """In the child: PyTorch."""
    import torch

    from bench.torch_steps import Twin, step
    from insitu import load

    graph = load(folder("models") / "mcunet-5fps.pkl").graph
    torch.nn.Linear(2, 2)(torch.zeros(1, 2)).sum().backward()
    before = megabytes()
    run = step(Twin(graph, CLASSES), torch.zeros(1, 3, 128, 128), torch.zeros(1, dtype=torch.int64))
    for _ in range(STEPS):
        run()
    peak = megabytes()
    print(json.dumps({"process_mb": peak, "step_mb": peak - before, "version": torch.__version__}))


if __name__ == "__main__":
    main()
