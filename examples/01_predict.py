"""A torch module, compiled to C and run: the outputs are torch's."""

import numpy as np
import torch
from torch import nn

import insitu

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 5)).eval()
images = torch.randn(4, 3, 16, 16)

model = insitu.load(net, images[:1])
scores = model.predict(images.numpy())

with torch.no_grad():
    print("largest difference from torch:", float(np.abs(scores - net(images).numpy()).max()))
print(model.device.info())
