"""A GPT and AdamW equal PyTorch's from the same weights and tokens, in float32.

    gpt_parity_test.py PROBE PRESET CONTEXT VOCABULARY BATCH

Norms are Euclidean, over a tensor; every bound is 1e-5.
- Ten steps of AdamW, each from the reference's weights: logits, loss, and the gradient of every
  parameter: ||ours - theirs|| <= 1e-5 ||theirs||.
- AdamW alone, from the reference's ten gradients: every parameter after the tenth step, with and
  without decay of biases and norms.
- Two independent trainings: the loss of each of the ten steps.
- Initial weights of one seed: the numbers that torch.manual_seed and torch.nn.init.normal_ give.
"""

import math
import sys
import tempfile

from pytorch import Probe, numpy, torch

STEPS = 10
LEARNING_RATE, DECAY = 1e-3, 0.1
BOUND = 1e-5

nn, functional = torch.nn, torch.nn.functional
SIZES = {"gpt": (4, 4, 128), "gpt2-124m": (12, 12, 768)}  # blocks, heads, features


class Attention(nn.Module):
    def __init__(self, heads, features):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(features, 3 * features)
        self.c_proj = nn.Linear(features, features)

    def forward(self, x):
        batch, tokens, features = x.shape
        shape = batch, tokens, self.heads, features // self.heads
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.c_attn(x).split(features, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(shape[-1])
        later = torch.ones(tokens, tokens).triu(1).bool()
        mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ v
        return self.c_proj(mixed.transpose(1, 2).reshape(x.shape))


class Mlp(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.c_fc = nn.Linear(features, 4 * features)
        self.c_proj = nn.Linear(4 * features, features)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, heads, features):
        super().__init__()
        self.ln_1 = nn.LayerNorm(features)
        self.attn = Attention(heads, features)
        self.ln_2 = nn.LayerNorm(features)
        self.mlp = Mlp(features)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """The presets of base/model/gpt.cc, with parameters of the same names."""

    def __init__(self, name, context, vocabulary):
        super().__init__()
        blocks, heads, features = SIZES[name]
        self.wte = nn.Embedding(vocabulary, features)
        self.wpe = nn.Embedding(context, features)
        self.h = nn.ModuleList(Block(heads, features) for _ in range(blocks))
        self.ln_f = nn.LayerNorm(features)
        self.residual_std = 0.02 / math.sqrt(2 * blocks)

    def initialize(self, seed):
        torch.manual_seed(seed)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = name.endswith("c_proj.weight")
                nn.init.normal_(parameter, 0, self.residual_std if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.ones_(parameter)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight)

    def disturb(self):
        """Disturbs biases and norms, which start equal, so that no gradient is zero or uniform."""
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.dim() == 1:
                    parameter += 0.1 * torch.randn_like(parameter)


def norm_error(ours, theirs):
    return ((ours - theirs).double().norm() / theirs.double().norm()).item()


class Check:
    """Remembers the worst error of each kind."""

    def __init__(self):
        self.worst = {}

    def bound(self, kind, what, error):
        self.worst[kind] = max(error, self.worst.get(kind, 0))
        assert error <= BOUND, f"{kind} of {what} differs by {error:.2e}, allowed {BOUND}"


def loss_of(logits, labels):
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten().long())


def adamw_of(model, decay_all):
    matrices = [p for p in model.parameters() if decay_all or p.dim() >= 2]
    others = [p for p in model.parameters() if not decay_all and p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}]
    if others:
        groups.append({"params": others, "weight_decay": 0})
    return torch.optim.AdamW(groups, lr=LEARNING_RATE)


def train_reference(probe, preset, model, tokens, labels, check):
    """Returns PyTorch's losses and gradients of each step; compares ours on the way."""
    optimizer = adamw_of(model, decay_all=False)
    losses, gradients = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(torch.from_numpy(tokens[step]))
        loss = loss_of(logits, torch.from_numpy(labels[step]))
        loss.backward()
        probe.write_parameters(model)
        probe.write("images.f32", tokens[step].astype("float32"))
        probe.write("labels.i32", labels[step])
        probe.run("gradients", preset, probe.directory, len(tokens[step]))
        check.bound("logits", f"step {step}",
                    norm_error(probe.read("logits.f32", logits.shape), logits.detach()))
        ours = probe.read("losses.f32", 1).item()
        check.bound("loss", f"step {step}", abs(ours - loss.item()) / loss.item())
        read = probe.read_parameters(model, ".gradient.f32")
        for name, parameter in model.named_parameters():
            check.bound("gradient", f"{name}, step {step}", norm_error(read[name], parameter.grad))
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
        losses.append(loss.item())
        optimizer.step()
    return losses, gradients


def check_optimizer(probe, preset, model, start, gradients, decay_all, check):
    model.load_state_dict(start)
    probe.write_parameters(model)
    optimizer = adamw_of(model, decay_all)
    for step, of_step in enumerate(gradients, 1):
        for name, parameter in model.named_parameters():
            parameter.grad = of_step[name]
            probe.write(f"{name}.{step}.f32", of_step[name].numpy())
        optimizer.step()
    what = "all" if decay_all else "matrices"
    probe.run("update", preset, probe.directory, STEPS, LEARNING_RATE, DECAY, what)
    ours = probe.read_parameters(model)
    for name, parameter in model.named_parameters():
        check.bound("AdamW's value", f"{name}, decay of {what}",
                    norm_error(ours[name], parameter.detach()))


def check_training(probe, preset, model, start, batches, losses, check):
    tokens, labels = batches
    model.load_state_dict(start)
    probe.write_parameters(model)
    probe.write("images.f32", tokens.astype("float32"))
    probe.write("labels.i32", labels)
    probe.run("adamw", preset, probe.directory, tokens.shape[1], STEPS, LEARNING_RATE, DECAY,
              "matrices")
    for step, (ours, theirs) in enumerate(zip(probe.read("losses.f32", STEPS).tolist(), losses)):
        check.bound("loss of a training of its own", f"step {step}", abs(ours - theirs) / theirs)


def check_initial_weights(probe, preset, model, seed):
    model.initialize(seed)
    probe.run("initialize", preset, probe.directory, seed)
    ours = probe.read_parameters(model)
    for name, theirs in model.named_parameters():
        same = torch.allclose(ours[name], theirs.detach(), rtol=1e-5, atol=1e-7)
        assert same, f"initial values of {name} differ"


def main():
    program, name, *numbers = sys.argv[1:]
    context, vocabulary, batch = map(int, numbers)
    preset = f"{name}/{context}/{vocabulary}"
    generator = numpy.random.RandomState(3)
    # Each token determines half of its successors, so there is something to learn.
    shape = STEPS, batch, context
    tokens = generator.randint(0, vocabulary, shape).astype("int32")
    labels = numpy.where(generator.rand(*shape) < 0.5, (tokens * 7 + 1) % vocabulary,
                         generator.randint(0, vocabulary, shape)).astype("int32")
    check = Check()
    with tempfile.TemporaryDirectory() as directory:
        probe = Probe(program, directory)
        model = Gpt(name, context, vocabulary)
        ours = {line.split()[0] for line in probe.run("layout", preset)}
        assert ours == {key for key, _ in model.named_parameters()}, ours
        check_initial_weights(probe, preset, model, seed=5)
        model.disturb()
        start = {key: value.clone() for key, value in model.state_dict().items()}
        losses, gradients = train_reference(probe, preset, model, tokens, labels, check)
        for decay_all in (False, True):
            check_optimizer(probe, preset, model, start, gradients, decay_all, check)
        check_training(probe, preset, model, start, (tokens, labels), losses, check)
    for kind, error in check.worst.items():
        print(f"{kind}: worst relative error {error:.2e}, allowed {BOUND}")
    print(f"losses: {losses[0]:.4f} to {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
