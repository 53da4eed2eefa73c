"""Losses and gradients equal PyTorch's from the same weights and batches, in float32.

    parity_test.py PROBE PRESET DATA_DIR [nesterov]

- Two independent trainings: the loss of each of 50 steps: |ours - theirs| <= 1e-4 theirs.
- The gradient of every parameter, at the reference's weights of each step:
  ||ours - theirs|| <= 1e-5 ||theirs||, Euclidean norms over the tensor.
- Initial weights of one seed: the numbers that torch.manual_seed and the modules' defaults give.
"""

import gzip
import pathlib
import sys
import tempfile

from pytorch import SKIPPED, Probe, numpy, preset, torch

STEPS, BATCH = 50, 64
# Larger rates make the first steps unstable. The last bit decides an almost undecided ReLU or
# pooling window, and the curves part (docs/engine.md).
LEARNING_RATE, MOMENTUM, DECAY = 0.01, 0.9, 5e-4


def load_batches(directory):
    """The first STEPS * BATCH training samples, scaled to [0, 1]."""
    count = STEPS * BATCH
    with gzip.open(directory / "train-images-idx3-ubyte.gz") as file:
        pixels = numpy.frombuffer(file.read(16 + count * 784)[16:], "uint8")
    with gzip.open(directory / "train-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(8 + count)[8:], "uint8")
    images = pixels.astype("float32") / numpy.float32(255)
    return images.reshape(STEPS, BATCH, 1, 28, 28), labels.astype("int32").reshape(STEPS, BATCH)


def norm_error(ours, theirs):
    return ((ours - theirs).double().norm() / theirs.double().norm()).item()


def check_gradients(probe, name, model, step):
    """Returns the largest error over the parameters."""
    probe.run("gradients", name, probe.directory, BATCH)
    ours = probe.read_parameters(model, ".gradient.f32")
    errors = {key: norm_error(ours[key], p.grad) for key, p in model.named_parameters()}
    for parameter, error in errors.items():
        assert error <= 1e-5, f"step {step}: gradient of {parameter} differs by {error:.2e}"
    return max(errors.values())


def train_reference(probe, name, model, images, labels, nesterov):
    """Returns PyTorch's losses; compares gradients on the way."""
    optimizer = torch.optim.SGD(
        model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=DECAY, nesterov=nesterov
    )
    losses, worst = [], 0
    for step in range(STEPS):
        optimizer.zero_grad()
        output = model(torch.from_numpy(images[step]))
        loss = torch.nn.functional.cross_entropy(output, torch.from_numpy(labels[step]).long())
        loss.backward()
        probe.write_parameters(model)
        probe.write("images.f32", images[step])
        probe.write("labels.i32", labels[step])
        worst = max(worst, check_gradients(probe, name, model, step))
        optimizer.step()
        losses.append(loss.item())
    print(f"gradients: worst relative error {worst:.2e}, allowed 1e-5")
    return losses


def check_initial_weights(probe, name, seed):
    torch.manual_seed(seed)
    model = preset(name)
    probe.run("initialize", name, probe.directory, seed)
    ours = probe.read_parameters(model)
    for parameter, theirs in model.named_parameters():
        same = torch.allclose(ours[parameter], theirs.detach(), rtol=1e-6, atol=1e-8)
        assert same, f"initial values of {parameter} differ"


def check_losses(probe, name, model, images, labels, nesterov):
    start = {key: value.clone() for key, value in model.state_dict().items()}
    theirs = train_reference(probe, name, model, images, labels, nesterov)
    model.load_state_dict(start)
    probe.write_parameters(model)
    probe.write("images.f32", images)
    probe.write("labels.i32", labels)
    probe.run("train", name, probe.directory, BATCH, STEPS, LEARNING_RATE, MOMENTUM, DECAY, int(nesterov))
    ours = probe.read("losses.f32", STEPS).tolist()
    errors = [abs(a - b) / b for a, b in zip(ours, theirs)]
    print(f"losses: {theirs[0]:.4f} to {theirs[-1]:.4f}, worst error {max(errors):.2e} of 1e-4")
    assert max(errors) <= 1e-4, errors


def main():
    program, name, data = sys.argv[1:4]
    if not pathlib.Path(data).is_dir():
        print(f"skipped: no data in {data}; the Debian package is dataset-fashion-mnist")
        return SKIPPED
    images, labels = load_batches(pathlib.Path(data))
    with tempfile.TemporaryDirectory() as directory:
        probe = Probe(program, directory)
        torch.manual_seed(7)
        model = preset(name)
        ours = {line.split()[0] for line in probe.run("layout", name)}
        assert ours == {key for key, _ in model.named_parameters()}, ours
        check_losses(probe, name, model, images, labels, nesterov="nesterov" in sys.argv[4:])
        check_initial_weights(probe, name, seed=5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
