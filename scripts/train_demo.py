"""Train the network of `insitu demo` and write it into the package: src/insitu/demo/digits.onnx.

    python scripts/train_demo.py

Needs the dev extra (torch, onnx, onnxscript, scikit-learn); takes under a minute on one core. The data are
scikit-learn's 8x8 digits; the last quarter, which other people wrote, is never used for training.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from insitu.demo import TARGET, digits

EPOCHS, BATCH, RATE = 60, 64, 0.01


class Digits(nn.Module):
    """A stem, two depthwise-separable blocks (the second with a skip), and a linear head: 5,194 parameters."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU())
        self.block1 = separable(24, 48)
        self.pool = nn.MaxPool2d(2)
        self.block2 = separable(48, 48)
        self.head = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.block1(self.stem(x)))
        x = x + self.block2(x)
        return self.head(x.mean((2, 3)))


def separable(i: int, o: int) -> nn.Sequential:
    depthwise = nn.Conv2d(i, i, 3, padding=1, groups=i, bias=False)
    pointwise = nn.Conv2d(i, o, 1, bias=False)
    return nn.Sequential(depthwise, nn.BatchNorm2d(i), nn.ReLU(), pointwise, nn.BatchNorm2d(o), nn.ReLU())


def train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.02)
    steps = EPOCHS * (len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    model.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for i in range(0, len(x) - BATCH + 1, BATCH):
            chosen = order[i : i + BATCH]
            optimizer.zero_grad()
            loss_of(model(shifted(x[chosen])), y[chosen]).backward()
            optimizer.step()
            schedule.step()


def shifted(x: Tensor) -> Tensor:
    """Moved by up to one pixel, with a little noise: the only augmentation."""
    dy, dx = np.random.randint(-1, 2, 2)
    return torch.roll(x, (int(dy), int(dx)), (2, 3)) + 0.05 * torch.randn_like(x)


def export(model: nn.Module, path: Path) -> None:
    example = torch.zeros(2, 1, 8, 8)
    batch = torch.export.Dim("batch")
    torch.onnx.export(
        model, (example,), str(path), input_names=["image"], output_names=["scores"],
        dynamic_shapes=({0: batch},), dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip


def strip(path: Path) -> None:
    """Remove what only a debugger needs: paths of this machine, and most of the bytes."""
    import onnx

    model = onnx.load(path)
    for holder in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input):
        del holder.metadata_props[:]
        if hasattr(holder, "doc_string"):
            holder.doc_string = ""
    del model.graph.value_info[:]
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    target = parser.parse_args().output
    torch.manual_seed(0)
    np.random.seed(0)
    torch.set_num_threads(1)
    data = digits()
    model = Digits()
    train(model, torch.from_numpy(data.x_train), torch.from_numpy(data.y_train))
    model.eval()
    with torch.no_grad():
        right = model(torch.from_numpy(data.x_test)).argmax(1).numpy() == data.y_test
    export(model, target)
    strip(target)
    count = sum(p.numel() for p in model.parameters())
    print(
        f"{count:,} parameters, test accuracy {100 * right.mean():.2f} %, {target.stat().st_size:,} bytes in {target}"
    )


if __name__ == "__main__":
    main()
