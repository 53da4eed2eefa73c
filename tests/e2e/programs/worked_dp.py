"""DataParallel sums over the batch: the same layer and loss, one batch of two samples. Without a GPU, PyTorch runs
the layer as it is and splits nothing; the tests of dp::DataParallel split this batch on CPUs."""

import torch

layer = torch.nn.Linear(2, 3)
model = torch.nn.DataParallel(layer)
inputs = torch.tensor([[0.4362, 0.4574], [0.2052, 0.2362]])
labels = torch.eye(3)[:2]
(model(inputs) * labels).sum().backward()
weight = [round(value, 6) for value in layer.weight.grad.flatten().tolist()]
print(f"weight {weight}")
print(f"bias {layer.bias.grad.tolist()}")
