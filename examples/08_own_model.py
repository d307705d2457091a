"""A small torch CNN of your own, and a camera that was mounted the wrong way: `auto` chooses what learns that."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import insitu

torch.manual_seed(0)
x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
x = (x / 16).float().reshape(-1, 1, 8, 8)
net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU(),
                    nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 10))  # fmt: skip
optimizer = torch.optim.Adam(net.parameters(), 0.02)
for _ in range(80):  # it knows digits ...
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x[:600]), y[:600]).backward()
    optimizer.step()

seen, labels = x.flip(3).numpy(), y.numpy()  # ... and now sees them in a mirror
learner = insitu.compile(net.eval(), data=seen[600:800])
before = learner.evaluate(seen[800:], labels[800:])
learner.fit(seen[600:800], labels[600:800])
print(*learner.notes, f"before: {before}", f"after: {learner.evaluate(seen[800:], labels[800:])}", sep="\n")
