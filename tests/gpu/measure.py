"""The arithmetic of the benchmarks: medians of rounds by turns, rows, and shares of a card's peak."""

import json
import statistics
import sys

# GPT-2 124M as llm.c counts its work: 6 N for the matrices forward and backward, N with the vocabulary
# padded to 50304, and 6 L C T for causal attention. 803.5 MFLOP a token of 1024.
PARAMETERS = 124_475_904
BLOCKS, FEATURES, CONTEXT = 12, 768, 1024
# Dense bf16 in FLOP/s, from the vendor's data sheets, by a part of the card's name. Those that are part
# of another's stand behind it.
PEAKS = (("H100 PCIe", 756e12), ("H100 NVL", 835e12), ("H100", 989.4e12), ("H200", 989.4e12),
         ("GH200", 989.4e12), ("B200", 2250e12), ("A100", 312e12))


def flops_per_token(parameters=PARAMETERS, blocks=BLOCKS, features=FEATURES, context=CONTEXT):
    return 6 * parameters + 6 * blocks * features * context


def peak(card):
    """FLOP/s, or None of a card that is not known."""
    return next((flops for name, flops in PEAKS if name in card), None)


def mfu(tokens_per_second, card):
    """The share of the card's peak that the model's own arithmetic takes; None where the peak is unknown."""
    most = peak(card)
    return tokens_per_second * flops_per_token() / most if most else None


def rounded(value):
    return None if value is None else float(f"{value:.5g}")


def row(name, ours, peer, unit, more_is_better=True, **more):
    """A ratio above 1 is better than the peer, for times as for rates; None where one is missing."""
    ratio = None
    if ours is not None and peer is not None and min(ours, peer) > 0:
        ratio = ours / peer if more_is_better else peer / ours
    return {"name": name, "ours": rounded(ours), "peer": rounded(peer), "ratio": rounded(ratio),
            "unit": unit, **{key: rounded(value) for key, value in more.items()}}


def tell(row):
    print(json.dumps(row), flush=True)


class Missing(Exception):
    """Why there is no figure."""


def by_turns(contenders, rounds, complain=lambda text: print(text, file=sys.stderr)):
    """`contenders`: functions by name, each of which measures once. One after the other in each round;
    the median of the rounds, by name. Who cannot be measured is asked no more, and has None."""
    figures = {name: [] for name in contenders}
    reasons = {}
    for _ in range(rounds):
        for name, measure in contenders.items():
            if name in reasons:
                continue
            try:
                figures[name].append(measure())
            except Missing as why:
                reasons[name] = str(why)
                complain(f"bench: {name} has no figure: {why}")
    return {name: None if name in reasons else statistics.median(found) for name, found in figures.items()}
