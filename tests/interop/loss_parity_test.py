"""Cross-entropy with weights, an ignored label and smoothing is PyTorch's, in float32.

    loss_parity_test.py PROBE

Each case has a linear layer of random weights, and random samples and labels. The loss and the
gradients of the layer are within 1e-5 of PyTorch's: ||ours - theirs|| <= 1e-5 ||theirs||.
"""

import itertools
import json
import random
import sys
import tempfile

from pytorch import Probe, torch

FEATURES, SEEDS = 7, 3


def error(ours, theirs):
    return ((ours - theirs).double().norm() / theirs.double().norm()).item()


def check(probe, draw, smoothing, ignores, weighs):
    classes, batch = draw.randint(2, 9), draw.randint(8, 40)
    torch.manual_seed(draw.randint(0, 1 << 30))
    # The ignored label is a class, or beyond them.
    ignored = draw.choice([draw.randrange(classes), 255]) if ignores else None
    weights = torch.rand(classes) * 3 if weighs else None
    if weighs and draw.random() < 0.5:
        weights[0] = 0
    model = torch.nn.Sequential()
    model.add_module("out", torch.nn.Linear(FEATURES, classes))
    images = torch.randn(batch, FEATURES) * 3
    labels = torch.randint(classes, (batch,))
    labels[0] = classes - 1
    if ignores:
        labels[torch.rand(batch) < 0.3] = ignored
        labels[-1] = (ignored + 1) % classes if ignored < classes else classes - 1

    file = probe.directory / "model.json"
    file.write_text(json.dumps({"layers": [{"name": "out", "linear": {"out": classes}}]}))
    probe.write_parameters(model)
    probe.write("images.f32", images.numpy())
    probe.write("labels.i32", labels.numpy().astype("int32"))
    words = "none" if weights is None else ",".join(f"{weight:.9g}" for weight in weights.tolist())
    probe.run("gradients", f"{file}:{FEATURES}:{classes}", probe.directory, batch, smoothing,
              "none" if ignored is None else ignored, words)

    options = {} if ignored is None else {"ignore_index": ignored}
    loss = torch.nn.functional.cross_entropy(model(images), labels, weight=weights,
                                             label_smoothing=smoothing, **options)
    loss.backward()
    errors = {"loss": abs(probe.read("losses.f32", 1).item() - loss.item()) / loss.item()}
    gradients = probe.read_parameters(model, ".gradient.f32")
    errors.update((name, error(gradients[name], value.grad)) for name, value in model.named_parameters())
    wrong = {name: f"{value:.2e}" for name, value in errors.items() if not value <= 1e-5}
    assert not wrong, f"smoothing {smoothing}, ignored {ignored}, weights {words}: {wrong}"
    return max(errors.values())


def main():
    worst = 0
    with tempfile.TemporaryDirectory() as directory:
        probe = Probe(sys.argv[1], directory)
        for seed in range(SEEDS):
            for smoothing, ignores, weighs in itertools.product([0, 0.2], [False, True], [False, True]):
                draw = random.Random(f"{seed} {smoothing} {ignores} {weighs}")
                worst = max(worst, check(probe, draw, smoothing, ignores, weighs))
    print(f"worst relative error {worst:.1e}, allowed 1e-5")
    return 0


if __name__ == "__main__":
    sys.exit(main())
