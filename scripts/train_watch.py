"""Train the base networks of `insitu demo`: src/insitu/demo/networks/wearer-NN.onnx has seen everybody except wearer
NN.

    python scripts/train_watch.py                all ten, a few minutes on one core
    python scripts/train_watch.py 2 5            two of them
    python scripts/train_watch.py 2 -o /tmp      write them elsewhere
    python scripts/train_watch.py --few          networks/few.onnx, which has seen two wearers, for fleets

Needs the dev extra (torch, onnx, onnxscript, seglearn). The data of the wearer who is left out is never looked at.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

from insitu.demo.fleet import FEW, FEW_NETWORK
from insitu.demo.watch import (
    CENTRE,
    EXERCISES,
    NETWORKS,
    SPREAD,
    WEARERS,
    Windows,
    joined,
    network,
    others,
    recordings,
    wearer,
)

EPOCHS, BATCH, RATE = 20, 64, 0.005
CHANNELS = (16, 24, 32)


class Watch(nn.Module):
    """Three convolutions along time, each halving it, and a linear head on the mean: 6,615 parameters."""

    def __init__(self):
        super().__init__()
        sizes = zip((6, *CHANNELS), CHANNELS)
        self.body = nn.Sequential(*(layer for i, o in sizes for layer in convolution(i, o)))
        self.head = nn.Linear(CHANNELS[-1], len(EXERCISES))

    def forward(self, x: Tensor) -> Tensor:
        """x [N, 1, 128, 6]: channels last, as a sensor delivers them."""
        return self.head(self.body(x.permute(0, 3, 1, 2)).mean((2, 3)))


def convolution(i: int, o: int) -> tuple[nn.Module, ...]:
    along_time = nn.Conv2d(i, o, (1, 5), stride=(1, 2), padding=(0, 2), bias=False)
    return along_time, nn.BatchNorm2d(o), nn.ReLU()


def trained(left_out: int) -> Watch:
    """A network that has seen everybody except this wearer. The same machine gives the same network."""
    torch.manual_seed(left_out)
    torch.set_num_threads(1)
    model = Watch()
    fit(model, others(left_out))
    return model.eval()


def trained_on(wearers: tuple[int, ...]) -> Watch:
    """A network that has seen these wearers alone."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Watch()
    fit(model, joined([r.part(0) for n in wearers for r in recordings()[n]]))
    return model.eval()


def fit(model: nn.Module, data: Windows) -> None:
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, EPOCHS * (len(x) // BATCH))
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    model.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for i in range(0, len(x) - BATCH + 1, BATCH):
            chosen = order[i : i + BATCH]
            optimizer.zero_grad()
            loss_of(model(changed(x[chosen])), y[chosen]).backward()
            optimizer.step()
            schedule.step()


def changed(x: Tensor) -> Tensor:
    """Another watch on another wrist: turned a little, scaled a little, with noise."""
    scale = 1 + 0.1 * torch.randn(len(x), 1, 1, 6)
    return turned(x) * scale + 0.05 * torch.randn_like(x)


def turned(x: Tensor, angle: float = 0.2) -> Tensor:
    """Acceleration and rotation as measured by a watch that is turned by about `angle` radians."""
    a = angle * torch.randn(len(x), 3)
    zero = torch.zeros(len(x))
    rows = [(zero, -a[:, 2], a[:, 1]), (a[:, 2], zero, -a[:, 0]), (-a[:, 1], a[:, 0], zero)]
    rotation = torch.matrix_exp(torch.stack([torch.stack(row, -1) for row in rows], -2))
    centre, spread = torch.from_numpy(CENTRE), torch.from_numpy(SPREAD)
    triples = (x * spread + centre).reshape(len(x), -1, 2, 3)  # back to g and rad/s, where rotating makes sense
    return (torch.einsum("nij,ntkj->ntki", rotation, triples).reshape(x.shape) - centre) / spread


def accuracy(model: nn.Module, data: Windows) -> float:
    with torch.no_grad():
        return float((model(torch.from_numpy(data.x)).argmax(1).numpy() == data.y).mean())


def export(model: nn.Module, path: Path) -> None:
    from train_demo import strip

    torch.onnx.export(
        model, (torch.zeros(2, 1, 128, 6),), str(path), input_names=["window"], output_names=["scores"],
        dynamic_shapes=({0: torch.export.Dim("batch")},), dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip
    strip(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wearers", type=int, nargs="*", default=WEARERS, help="who is left out (each in turn)")
    parser.add_argument("-o", "--output", type=Path, default=NETWORKS, help="the folder")
    parser.add_argument("--few", action="store_true", help="the network of two wearers instead")
    options = parser.parse_args()
    if options.few:
        export(trained_on(FEW), options.output / FEW_NETWORK.name)
    for number in () if options.few else options.wearers:
        model, path = trained(number), options.output / network(number).name
        export(model, path)
        right, size = accuracy(model, wearer(number).test), path.stat().st_size
        print(f"{path.name}: {size:,} bytes, {right:.1%} of the wearer's later windows", flush=True)


if __name__ == "__main__":
    main()
