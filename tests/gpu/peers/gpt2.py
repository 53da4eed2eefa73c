"""GPT-2 in PyTorch, as the peer of gpt2-124m: bf16 autocast over float32 weights, fused AdamW, tokens on the
device before the clock starts. The file of tokens has llm.c's header and a step's batch for each step. Prints {"tokens_per_second": median of the rounds}; exits with 3 if the memory does not
suffice for the batch.

    gpt2.py --variant eager|compile|compile_cudnn --tokens FILE [--batch 64] [--steps 20] [--rounds 3] [--device cuda] [--tiny]
"""

import argparse
import contextlib
import dataclasses
import json
import math
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

OUT_OF_MEMORY = 3
HEADER_BYTES = 1024
WARM_UP_STEPS = 10
VARIANTS = ("eager", "compile", "compile_cudnn")


@dataclasses.dataclass
class Size:
    blocks: int = 12
    heads: int = 12
    features: int = 768
    vocabulary: int = 50304  # 50257, padded for the matrix units
    context: int = 1024


TINY = Size(blocks=2, heads=2, features=64, vocabulary=256, context=32)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(size.features), nn.LayerNorm(size.features)
        self.qkv = nn.Linear(size.features, 3 * size.features)
        self.attended = nn.Linear(size.features, size.features)
        self.wide = nn.Linear(size.features, 4 * size.features)
        self.narrow = nn.Linear(4 * size.features, size.features)
        for last in (self.attended, self.narrow):
            last.ends_branch = True

    def attention(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attended(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.tokens = nn.Embedding(size.vocabulary, size.features)
        self.places = nn.Embedding(size.context, size.features)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.blocks))
        self.norm = nn.LayerNorm(size.features)
        self.apply(self._initialize)

    def _initialize(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            ends = getattr(module, "ends_branch", False)
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.size.blocks) if ends else 0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, tokens, labels):
        """The mean loss."""
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def optimizer_of(model, device):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=device == "cuda")


def batches_of(path, batch, context, device):
    """The windows of a file of 16-bit tokens, in batches: tokens and, for each, the next one."""
    stored = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()[HEADER_BYTES:]), dtype=torch.int16)
    text = (stored.to(device).long() & 0xffff)
    windows = (len(text) - 1) // context
    shape = (windows // batch, batch, context)
    count = math.prod(shape)
    return list(zip(text[:count].view(shape), text[1:count + 1].view(shape)))


class Training:
    def __init__(self, variant, size, batch, device, tokens):
        torch.manual_seed(1)
        self.device = device
        model = Gpt2(size).to(device)
        self.optimizer = optimizer_of(model, device)
        self.model = torch.compile(model) if variant.startswith("compile") else model
        self.attention = (sdpa_kernel([SDPBackend.CUDNN_ATTENTION]) if variant == "compile_cudnn"
                          else contextlib.nullcontext())
        self.batches = batches_of(tokens, batch, size.context, device)
        self.tokens_per_step = batch * size.context
        self.steps = 0

    def step(self):
        tokens, labels = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, torch.bfloat16):
            loss = self.model(tokens, labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def seconds(self, steps):
        self._settle()
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        self._settle()
        return time.perf_counter() - began

    def _settle(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def rates(self, steps, rounds):
        """Tokens a second in each round."""
        with self.attention:
            self.seconds(WARM_UP_STEPS)
            return [steps * self.tokens_per_step / self.seconds(steps) for _ in range(rounds)]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_float32_matmul_precision("high")
    try:
        training = Training(options.variant, TINY if options.tiny else Size(), options.batch, options.device,
                            options.tokens)
        rates = training.rates(options.steps, options.rounds)
    except torch.cuda.OutOfMemoryError:
        sys.exit(OUT_OF_MEMORY)
    print(json.dumps({"tokens_per_second": statistics.median(rates)}))


if __name__ == "__main__":
    main()
