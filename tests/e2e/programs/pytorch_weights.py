"""A user's side of weights that dp and PyTorch exchange.

    pytorch_weights.py recipe DOCS N               runs the N-th block of Python of a page, here
    pytorch_weights.py resnet FILE                 writes a small ResNet with running statistics
    pytorch_weights.py evaluate FILE DATA          reads one back strictly; prints its loss and accuracy
    pytorch_weights.py gpt2 FILE                   writes a small GPT-2 with Hugging Face's names
    pytorch_weights.py differ A B [NAME...]        prints the largest difference of equal names, or of some
"""

import re
import sys

import torch
from safetensors.torch import load_file, save_file


def small_resnet():
    """The preset resnet18-cifar for images with one channel."""
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(1, 64, 3, padding=1, bias=False)
    model.maxpool = torch.nn.Identity()
    return model


def recipe(page, number):
    with open(page) as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    exec(compile(blocks[int(number)], page, "exec"), {})


def resnet(path):
    torch.manual_seed(1)
    model = small_resnet()
    for _ in range(3):
        model(torch.randn(8, 1, 28, 28))
    save_file(model.state_dict(), path)


def evaluate(path, data):
    model = small_resnet()
    model.load_state_dict(load_file(path))
    model.eval()

    def read(name, header):
        with open(f"{data}/t10k-{name}", "rb") as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    images = read("images-idx3-ubyte", 16).reshape(-1, 1, 28, 28).float() / 255
    labels = read("labels-idx1-ubyte", 8).long()
    with torch.no_grad():
        output = model(images)
    loss = torch.nn.functional.cross_entropy(output, labels).item()
    print(loss, (output.argmax(1) == labels).float().mean().item())


def gpt2(path):
    """Blocks as in the preset gpt, with matrices as inputs x outputs and more positions than needed."""
    torch.manual_seed(2)
    features, tensors = 128, {}

    def layer(name, *shape):
        tensors[f"transformer.{name}.weight"] = torch.randn(*shape) * 0.02
        tensors[f"transformer.{name}.bias"] = torch.randn(shape[-1]) * 0.02

    for block in range(4):
        for norm in ("ln_1", "ln_2"):
            layer(f"h.{block}.{norm}", features)
        layer(f"h.{block}.attn.c_attn", features, 3 * features)
        layer(f"h.{block}.attn.c_proj", features, features)
        layer(f"h.{block}.mlp.c_fc", features, 4 * features)
        layer(f"h.{block}.mlp.c_proj", 4 * features, features)
        tensors[f"transformer.h.{block}.attn.bias"] = torch.ones(1, 1, 64, 64)
    layer("ln_f", features)
    tensors["transformer.wte.weight"] = torch.randn(256, features) * 0.02
    tensors["transformer.wpe.weight"] = torch.randn(64, features) * 0.02
    save_file(tensors, path)


def differ(a, b, *names):
    """Of Hugging Face's names and matrices in the first file, and dp's in the second."""
    theirs, ours = load_file(a), load_file(b)
    largest = 0.0
    for name in names or ours:
        value = ours[name]
        other = theirs.get(name, theirs.get(f"transformer.{name}"))
        if "running" in name or "num_batches" in name:
            continue
        if re.search(r"\.c_\w+\.weight$", name) and name not in theirs:
            other = other.T
        largest = max(largest, (value - other[: value.shape[0]]).abs().max().item())
    print(largest)


if __name__ == "__main__":
    {"recipe": recipe, "resnet": resnet, "evaluate": evaluate, "gpt2": gpt2, "differ": differ}[sys.argv[1]](*sys.argv[2:])
