"""Each kind of layer computes what PyTorch's does, in float32.

    layers_parity_test.py PROBE [CASE...]

A case is a small model around one kind, written as a job file has it and as PyTorch's modules.
Shapes, weights and batches are random, and each case is tried with several seeds:

- Output, loss and the gradient of each parameter: ||ours - theirs|| <= 1e-5 ||theirs||, Euclidean
  norms over the tensor.
- Ten steps of SGD with momentum: each loss within 1e-5, and the running statistics as the gradients.
"""

import json
import pathlib
import random
import sys
import tempfile

from pytorch import Probe, numpy, torch

SEEDS, STEPS, BATCH, CLASSES = 3, 10, 6, 5
LEARNING_RATE, MOMENTUM, DECAY = 0.01, 0.9, 1e-3
nn = torch.nn


class Model(nn.Module):
    """Modules in a row, or with the inputs and sums that `layers` names."""

    def __init__(self, layers):
        super().__init__()
        self.places = []
        for i, (spec, module) in enumerate(layers):
            name = spec.get("name") or f"layer{i}"
            self.add_module(name, module or nn.Identity())
            self.places.append((name, spec.get("input"), spec.get("add", {}).get("layer")))

    def forward(self, x):
        outputs = {}
        for name, source, added in self.places:
            x = outputs.get(source, x)
            x = getattr(self, name)(x)
            if added:
                x = x + outputs[added]
            outputs[name] = x
        return x


class Attention(nn.Module):
    """Queries, keys and values side by side; heads, then the features of a head."""

    def __init__(self, heads, causal, rotary):
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary

    def turn(self, x):
        tokens, half = x.shape[2], x.shape[3] // 2
        angles = torch.arange(tokens).double()[:, None] * 10000.0 ** (-torch.arange(half).double() / half)
        cosines, sines = angles.cos().float(), angles.sin().float()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cosines - b * sines, b * cosines + a * sines], dim=-1)

    def forward(self, x):
        batch, tokens, width = x.shape
        features = width // 3
        q, k, v = (part.reshape(batch, tokens, self.heads, -1).transpose(1, 2)
                   for part in x.split(features, dim=2))
        if self.rotary:
            q, k = self.turn(q), self.turn(k)
        scores = q @ k.transpose(2, 3) / (features // self.heads) ** 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, features)


class RmsNorm(nn.Module):
    def __init__(self, features, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.epsilon = epsilon

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


def layer(kind, module=None, name=None, input=None, **fields):
    spec = {kind: fields}
    if name:
        spec["name"] = name
    if input:
        spec["input"] = input
    return spec, module


def conv2d(channels, out, kernel, **fields):
    options = {key: value for key, value in fields.items() if key not in ("name", "input")}
    return layer("conv2d", nn.Conv2d(channels, out, kernel, **options), out=out, kernel=kernel, **fields)


def head(features):
    return [layer("flatten", nn.Flatten()), layer("linear", nn.Linear(features, CLASSES), out=CLASSES)]


def image(draw, low=6):
    return draw.randint(1, 5), draw.randint(low, 11), draw.randint(low, 11)


def with_head(layers, shape):
    """Flattens the output of `layers` and adds a linear layer."""
    with torch.no_grad():
        given = Model(layers)(torch.zeros(2, *shape))
    return layers + head(given[0].numel()), shape


def of_image(draw, *layers):
    """A convolution before the layers, so that they have a gradient to pass. It has no bias: where a
    batch norm follows, that has no gradient but rounding."""
    channels, rows, columns = image(draw)
    return with_head([conv2d(channels, 4, 3, padding=1, bias=False), *layers], (channels, rows, columns))


def of_tokens(draw, make):
    """Layers over tokens x features: make(features) gives them."""
    tokens, features = draw.randint(2, 7), 2 * draw.randint(2, 9)
    return with_head([layer("linear", nn.Linear(3, features), out=features), *make(features)], (tokens, 3))


def grouped(draw):
    groups, dilation, padding = draw.choice([(1, 2, 1), (2, 1, 2), (4, 2, 2)])
    stride = draw.randint(1, 2)
    return of_image(draw, conv2d(4, 8, 3, groups=groups, dilation=dilation, padding=padding, stride=stride))


def conv1d(draw):
    channels, places = 2 * draw.randint(1, 4), draw.randint(8, 20)
    options = {"stride": draw.randint(1, 2), "padding": draw.randint(0, 2), "dilation": draw.randint(1, 2)}
    return with_head(
        [layer("conv1d", nn.Conv1d(channels, 6, 3, **options), out=6, kernel=3, **options),
         layer("relu", nn.ReLU()),
         layer("conv1d", nn.Conv1d(6, 4, 2, groups=2, bias=False), out=4, kernel=2, groups=2, bias=False),
         layer("batchNorm", nn.BatchNorm1d(4))], (channels, places))


def batch_norm(draw):
    momentum, epsilon = draw.choice([(0.1, 1e-5), (0.3, 1e-3)])
    return of_image(draw, layer("batchNorm", nn.BatchNorm2d(4, eps=epsilon, momentum=momentum),
                                epsilon=epsilon, momentum=momentum),
                    *draw.choice([[], [layer("relu", nn.ReLU())], [layer("tanh", nn.Tanh())]]))


def batch_norm_of_features(draw):
    features = draw.randint(3, 20)
    return [layer("linear", nn.Linear(7, features, bias=False), out=features, bias=False),
            layer("batchNorm", nn.BatchNorm1d(features)), layer("relu", nn.ReLU()),
            layer("linear", nn.Linear(features, CLASSES), out=CLASSES)], (7,)


def max_pool(draw):
    kernel = draw.randint(2, 3)
    options = {"stride": draw.randint(1, 2), "padding": draw.randint(0, 1)}
    return of_image(draw, layer("relu", nn.ReLU()),
                    layer("maxPool2d", nn.MaxPool2d(kernel, **options), kernel=kernel, **options))


def avg_pool(draw):
    kernel = draw.randint(2, 3)
    options = {"stride": draw.randint(1, 3), "padding": draw.randint(0, 1)}
    return of_image(draw, layer("avgPool2d", nn.AvgPool2d(kernel, **options), kernel=kernel, **options))


def adaptive_pool(draw):
    rows, columns = draw.randint(1, 4), draw.randint(1, 4)
    return of_image(draw, layer("adaptiveAvgPool2d", nn.AdaptiveAvgPool2d((rows, columns)),
                                rows=rows, columns=columns))


def residual(draw):
    """Two blocks of a residual network; the second has a convolution in its shortcut."""
    channels, rows, columns = image(draw)
    return with_head([
        conv2d(channels, 4, 3, padding=1, bias=False, name="stem"),
        layer("batchNorm", nn.BatchNorm2d(4)), layer("relu", nn.ReLU(), name="in1"),
        conv2d(4, 4, 3, padding=1, bias=False), layer("batchNorm", nn.BatchNorm2d(4)), layer("relu", nn.ReLU()),
        conv2d(4, 4, 3, padding=1, bias=False), layer("batchNorm", nn.BatchNorm2d(4)),
        layer("add", name="sum1", layer="in1"), layer("relu", nn.ReLU(), name="in2"),
        conv2d(4, 6, 3, stride=2, padding=1, bias=False), layer("batchNorm", nn.BatchNorm2d(6)),
        layer("relu", nn.ReLU()), conv2d(6, 6, 3, padding=1, bias=False),
        layer("batchNorm", nn.BatchNorm2d(6), name="branch"),
        conv2d(4, 6, 1, stride=2, bias=False, input="in2"), layer("batchNorm", nn.BatchNorm2d(6)),
        layer("add", layer="branch"), layer("relu", nn.ReLU()),
        layer("adaptiveAvgPool2d", nn.AdaptiveAvgPool2d(1))], (channels, rows, columns))


def branches(draw):
    """Three layers take one output; one of their outputs is also the source of an add."""
    channels, rows, columns = image(draw)
    return with_head([
        conv2d(channels, 4, 3, padding=1, name="stem"),
        layer("relu", nn.ReLU(), name="a", input="stem"),
        layer("tanh", nn.Tanh(), name="b", input="stem"),
        layer("add", name="ab", layer="a"),
        layer("sigmoid", nn.Sigmoid(), input="stem"),
        layer("add", layer="ab"), layer("add", layer="b")], (channels, rows, columns))


def attention(causal, rotary):
    def make(draw):
        heads, of_head = draw.randint(1, 3), 2 * draw.randint(1, 4)
        width = 3 * heads * of_head
        return of_tokens(draw, lambda features: [
            layer("linear", nn.Linear(features, width), out=width),
            layer("attention", Attention(heads, causal, rotary), heads=heads, causal=causal, rotary=rotary)])
    return make


def function(kind, module, **fields):
    return lambda draw: of_image(draw, layer(kind, module(), **fields), conv2d(4, 3, 1))


def of_rows(kind, module, **fields):
    return lambda draw: of_tokens(draw, lambda features: [
        layer(kind, module(features), **fields), layer("linear", nn.Linear(features, 4), out=4)])


CASES = {
    "grouped_and_dilated_convolution": grouped,
    "conv1d": conv1d,
    "batch_norm": batch_norm,
    "batch_norm_of_features": batch_norm_of_features,
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "adaptive_avg_pool": adaptive_pool,
    "residual": residual,
    "branches": branches,
    "relu": function("relu", nn.ReLU),
    "gelu": function("gelu", lambda: nn.GELU(approximate="tanh")),
    "exact_gelu": function("gelu", nn.GELU, approximate="none"),
    "silu": function("silu", nn.SiLU),
    "tanh": function("tanh", nn.Tanh),
    "sigmoid": function("sigmoid", nn.Sigmoid),
    "softmax": of_rows("softmax", lambda features: nn.Softmax(dim=-1)),
    "layer_norm": of_rows("layerNorm", nn.LayerNorm),
    "rms_norm": of_rows("rmsNorm", lambda features: RmsNorm(features, 1e-6)),
    "attention": attention(causal=False, rotary=False),
    "causal_attention": attention(causal=True, rotary=False),
    "rotary_attention": attention(causal=False, rotary=True),
    "causal_rotary_attention": attention(causal=True, rotary=True),
}


def tensors(model):
    """Parameters and running statistics by the names in our weight files."""
    named = dict(model.named_parameters())
    named.update((name, value) for name, value in model.named_buffers() if "num_batches" not in name)
    return named


def error(ours, theirs):
    """Relative to the reference's norm. A gradient that is zero but for rounding counts as zero."""
    return ((ours - theirs).double().norm() / max(theirs.double().norm().item(), 1e-4)).item()


def read(probe, model, ending):
    return {name: probe.read(name + ending, value.shape) for name, value in tensors(model).items()}


def train(model, images, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[step]), labels[step])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check(probe, case, seed):
    draw = random.Random(f"{case} {seed}")
    torch.manual_seed(draw.randint(0, 1 << 30))
    layers, shape = CASES[case](draw)
    model = Model(layers)
    specs = [{"name": f"layer{i}", **spec} for i, (spec, _) in enumerate(layers)]
    file = probe.directory / "model.json"
    file.write_text(json.dumps({"layers": specs}))
    name = f"{file}:{'x'.join(map(str, shape))}:{CLASSES}"

    images = torch.randn(STEPS, BATCH, *shape)
    labels = torch.randint(CLASSES, (STEPS, BATCH))
    for key, value in tensors(model).items():
        probe.write(f"{key}.f32", value.detach().numpy())
    probe.write("images.f32", images.numpy())
    probe.write("labels.i32", labels.numpy().astype("int32"))

    start = {key: value.clone() for key, value in model.state_dict().items()}
    output = model(images[0])
    nn.functional.cross_entropy(output, labels[0]).backward()
    probe.run("gradients", name, probe.directory, BATCH)
    gradients = read(probe, model, ".gradient.f32")
    errors = {"output": error(probe.read("logits.f32", output.shape), output.detach())}
    errors.update((key, error(gradients[key], value.grad)) for key, value in model.named_parameters())

    model.load_state_dict(start)
    theirs = train(model, images, labels)
    probe.run("train", name, probe.directory, BATCH, STEPS, LEARNING_RATE, MOMENTUM, DECAY, 0)
    ours = probe.read("losses.f32", STEPS).tolist()
    errors.update((f"loss {step}", abs(a - b) / b) for step, (a, b) in enumerate(zip(ours, theirs)))
    values = read(probe, model, ".f32")
    errors.update((key, error(values[key], value)) for key, value in tensors(model).items() if "running" in key)
    wrong = {key: f"{value:.2e}" for key, value in errors.items() if not value <= 1e-5}
    assert not wrong, f"{case}, seed {seed}, {specs}: {wrong}"
    return max(errors.values())


def main():
    program, cases = sys.argv[1], sys.argv[2:] or list(CASES)
    for case in cases:
        with tempfile.TemporaryDirectory() as directory:
            worst = max(check(Probe(program, directory), case, seed) for seed in range(SEEDS))
        print(f"{case}: worst relative error {worst:.1e}, allowed 1e-5")
    return 0


if __name__ == "__main__":
    sys.exit(main())
