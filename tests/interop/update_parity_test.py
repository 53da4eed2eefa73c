"""Optimizers, learning rate schedules, clipping, groups and the average of the weights equal
PyTorch's over the same ten gradients, in float32.

    update_parity_test.py PROBE

Of every parameter after the tenth step: ||ours - theirs|| <= 1e-5 ||theirs||, Euclidean norms.
"""

import sys
import tempfile
from collections import OrderedDict

from pytorch import Probe, torch

from torch.optim import lr_scheduler

STEPS, BOUND = 10, 1e-5
RATE, DECAY = 0.02, 0.1

OPTIMIZERS = {
    "sgd": (["update=sgd"], lambda p: torch.optim.SGD(p, lr=RATE)),
    "momentum": (
        ["update=sgd", "momentum=0.9", f"decay={DECAY}"],
        lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.9, weight_decay=DECAY),
    ),
    "nesterov": (
        ["update=sgd", "momentum=0.9", "nesterov=1", f"decay={DECAY}"],
        lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.9, weight_decay=DECAY, nesterov=True),
    ),
    "adam": (["update=adam"], lambda p: torch.optim.Adam(p, lr=RATE)),
    "adam with decay": (
        ["update=adam", f"decay={DECAY}"],
        lambda p: torch.optim.Adam(p, lr=RATE, weight_decay=DECAY),
    ),
    "adamw": (
        ["update=adamw", f"decay={DECAY}"],
        lambda p: torch.optim.AdamW(p, lr=RATE, weight_decay=DECAY),
    ),
}


def warm_up(optimizer):
    return lr_scheduler.LinearLR(optimizer, 1 / 4, 1.0, 3)


def after_warm_up(optimizer, rest):
    return lr_scheduler.SequentialLR(optimizer, [warm_up(optimizer), rest], [4])


SCHEDULES = {
    "constant": ([], lambda o: lr_scheduler.LambdaLR(o, lambda _: 1)),
    "cosine": (
        ["cosine=0.1"],
        lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, eta_min=0.1 * RATE),
    ),
    "warm-up and cosine": (
        ["warmup=4", "cosine=0.1"],
        lambda o: after_warm_up(
            o, lr_scheduler.CosineAnnealingLR(o, STEPS - 4, eta_min=0.1 * RATE)
        ),
    ),
    "warm-up and line": (
        ["warmup=4", "linear=0.2", "length=5"],
        lambda o: after_warm_up(o, lr_scheduler.LinearLR(o, 1.0, 0.2, 5)),
    ),
    "step": (
        ["step=3", "factor=0.5"],
        lambda o: lr_scheduler.StepLR(o, 3, 0.5),
    ),
    "warm-up and marks": (
        ["warmup=4", "marks=2,7", "factor=0.5"],
        lambda o: lr_scheduler.ChainedScheduler(
            [warm_up(o), lr_scheduler.MultiStepLR(o, [2, 7], 0.5)]
        ),
    ),
}


def make_model():
    linear = torch.nn.Linear
    return torch.nn.Sequential(OrderedDict(first=linear(5, 6), second=linear(6, 4)))


def norm_error(ours, theirs):
    return ((ours - theirs).double().norm() / theirs.double().norm()).item()


class Reference:
    """A model whose gradients are drawn, with ours beside it."""

    def __init__(self, probe, seed):
        torch.manual_seed(seed)
        self.probe = probe
        self.model = make_model()
        self.gradients = [
            {name: torch.randn(p.shape) for name, p in self.model.named_parameters()}
            for _ in range(STEPS)
        ]
        probe.write_parameters(self.model)
        for step, of_step in enumerate(self.gradients, 1):
            for name, gradient in of_step.items():
                probe.write(f"{name}.{step}.f32", gradient.numpy())

    def train(self, optimizer, scheduler, clip_norm=None):
        for of_step in self.gradients:
            for name, parameter in self.model.named_parameters():
                parameter.grad = of_step[name].clone()
            if clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip_norm)
            optimizer.step()
            scheduler.step()

    def worst_error(self, words):
        self.probe.run(self.probe.directory, STEPS, f"rate={RATE}", *words)
        ours = self.probe.read_parameters(self.model)
        return max(
            norm_error(ours[name], parameter.detach())
            for name, parameter in self.model.named_parameters()
        )


def check_groups(probe, what, words, make):
    """One weight frozen, one with a tenth of the rate, one without decay; gradients are clipped."""
    reference = Reference(probe, seed=12)
    model = reference.model
    model.first.bias.requires_grad_(False)
    start = model.first.bias.detach().clone()
    optimizer = make([
        {"params": [model.first.weight], "lr": 0.1 * RATE},
        {"params": [model.second.bias], "weight_decay": 0},
        {"params": [model.second.weight]},
    ])
    for of_step in reference.gradients:
        for name, parameter in model.named_parameters():
            parameter.grad = of_step[name].clone() if parameter.requires_grad else None
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    error = reference.worst_error(
        [*words, "clip=0.5", "freeze=first.bias", "slow=first.weight", "still=second.bias"]
    )
    print(f"{what}, groups: worst relative error {error:.2e}, allowed {BOUND}")
    assert error <= BOUND, f"{what} with groups differs by {error:.2e}, allowed {BOUND}"
    assert torch.equal(probe.read_parameters(model)["first.bias"], start)


def check_average(probe, decay):
    reference = Reference(probe, seed=13)
    average = torch.optim.swa_utils.AveragedModel(
        reference.model, avg_fn=lambda mean, value, _: mean + (1 - decay) * (value - mean)
    )
    optimizer = torch.optim.SGD(reference.model.parameters(), lr=RATE)
    for of_step in reference.gradients:
        for name, parameter in reference.model.named_parameters():
            parameter.grad = of_step[name].clone()
        optimizer.step()
        average.update_parameters(reference.model)
    assert reference.worst_error(["update=sgd", f"average={decay}"]) <= BOUND
    ours = probe.read_parameters(reference.model, ".average.f32")
    error = max(
        norm_error(ours[name], parameter.detach())
        for name, parameter in average.module.named_parameters()
    )
    print(f"average: worst relative error {error:.2e}, allowed {BOUND}")
    assert error <= BOUND, f"the average differs by {error:.2e}, allowed {BOUND}"


def check(probe, what, update, schedule, clip_norm=None):
    (update_words, make), (schedule_words, make_schedule) = update, schedule
    reference = Reference(probe, seed=11)
    optimizer = make(reference.model.parameters())
    reference.train(optimizer, make_schedule(optimizer), clip_norm)
    clip_words = [] if clip_norm is None else [f"clip={clip_norm}"]
    error = reference.worst_error([*update_words, *schedule_words, *clip_words])
    print(f"{what}: worst relative error {error:.2e}, allowed {BOUND}")
    assert error <= BOUND, f"{what} differs by {error:.2e}, allowed {BOUND}"


def main():
    with tempfile.TemporaryDirectory() as directory:
        probe = Probe(sys.argv[1], directory)
        for name, update in OPTIMIZERS.items():
            check(probe, name, update, SCHEDULES["constant"])
        for name, schedule in SCHEDULES.items():
            check(probe, f"adam, {name}", OPTIMIZERS["adam"], schedule)
            check(probe, f"momentum, {name}", OPTIMIZERS["momentum"], schedule)
        # Gradients of 64 drawn values have norms near 8: some steps are clipped, or all.
        for clip_norm in 8, 0.5:
            for name in "momentum", "adam with decay", "adamw":
                check(probe, f"{name}, clipped to {clip_norm}", OPTIMIZERS[name],
                      SCHEDULES["constant"], clip_norm)
        for name in "momentum", "adam with decay", "adamw":
            check_groups(probe, name, *OPTIMIZERS[name])
        check_average(probe, decay=0.8)
    return 0


if __name__ == "__main__":
    sys.exit(main())
