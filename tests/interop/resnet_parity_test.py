"""The presets of residual networks compute what torchvision's models do, under the same names.

    resnet_parity_test.py PROBE

From torchvision's own initial weights, in training: the output within 1e-3, and each gradient within
a tenth, of the norm of the tensor. A wrong connection would be far from either. Gradients of so many
layers cannot agree better: a ReLU that is almost undecided in one place changes all before it, and
PyTorch in float32 differs by 2 % from itself in float64. layers_parity_test.py compares the kinds of
layers exactly.
"""

import json
import sys
import tempfile

from pytorch import SKIPPED, Probe, torch

try:
    import torchvision
except ImportError as missing:
    print(f"skipped: {missing}; the Debian package is python3-torchvision")
    sys.exit(SKIPPED)

BATCH, CLASSES = 4, 7


def small_stem(model):
    model.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = torch.nn.Identity()
    return model


def check(probe, preset, model, size):
    (probe.directory / "model.json").write_text(json.dumps({"preset": preset}))
    name = f"{probe.directory}/model.json:3x{size}x{size}:{CLASSES}"
    tensors = dict(model.named_parameters())
    tensors.update((key, value) for key, value in model.named_buffers() if "num_batches" not in key)
    ours = {line.split()[0] for line in probe.run("layout", name)}
    assert ours == set(tensors), ours ^ set(tensors)

    images, labels = torch.randn(BATCH, 3, size, size), torch.randint(CLASSES, (BATCH,))
    for key, value in tensors.items():
        probe.write(f"{key}.f32", value.detach().numpy())
    probe.write("images.f32", images.numpy())
    probe.write("labels.i32", labels.numpy().astype("int32"))
    output = model(images)
    torch.nn.functional.cross_entropy(output, labels).backward()
    probe.run("gradients", name, probe.directory, BATCH)

    def error(file, theirs):
        return ((probe.read(file, theirs.shape) - theirs).double().norm() / theirs.double().norm()).item()

    of_output = error("logits.f32", output.detach())
    of_gradients = {key: error(f"{key}.gradient.f32", value.grad) for key, value in model.named_parameters()}
    worst = max(of_gradients, key=of_gradients.get)
    print(f"{preset}: relative errors: output {of_output:.1e}, gradients up to {of_gradients[worst]:.1e}")
    assert of_output <= 1e-3 and of_gradients[worst] <= 0.1, worst


def main():
    torch.manual_seed(3)
    models = torchvision.models
    with tempfile.TemporaryDirectory() as directory:
        probe = Probe(sys.argv[1], directory)
        check(probe, "resnet18", models.resnet18(num_classes=CLASSES), 64)
        check(probe, "resnet50", models.resnet50(num_classes=CLASSES), 64)
        check(probe, "resnet34-cifar", small_stem(models.resnet34(num_classes=CLASSES)), 32)
    return 0


if __name__ == "__main__":
    sys.exit(main())
