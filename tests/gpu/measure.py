"""The arithmetic of the benchmarks: medians of rounds in turns, rows, and shares of a card's peak."""

import dataclasses
import json
import statistics
import sys
import traceback

from checks import Failed, Skipped

# GPT-2 124M as llm.c counts its work. The matrices take 6 N forward and backward, where N has the vocabulary padded to
# 50304. Causal attention takes 6 L C T. This gives 803.5 MFLOP a token of 1024.
PARAMETERS = 124_475_904
BLOCKS, FEATURES, CONTEXT = 12, 768, 1024
# Dense bf16 in FLOP/s, from the vendor's data sheets, by a part of the card's name. A name that is part of another
# comes after it, unless both have the same peak.
PEAKS = (("H100 PCIe", 756e12), ("H100 NVL", 835e12), ("H100", 989.4e12), ("H200", 989.4e12),
         ("GH200", 989.4e12), ("B200", 2250e12), ("A100", 312e12))


def flops_per_token(parameters=PARAMETERS, blocks=BLOCKS, features=FEATURES, context=CONTEXT):
    return 6 * parameters + 6 * blocks * features * context


def peak(card):
    """FLOP/s; None for an unknown card."""
    return next((flops for name, flops in PEAKS if name in card), None)


def mfu(tokens_per_second, card):
    """The share of the card's peak that the model's own arithmetic takes; None if the peak is unknown."""
    most = peak(card)
    return tokens_per_second * flops_per_token() / most if most else None


def rounded(value):
    return None if value is None else float(f"{value:.5g}")


@dataclasses.dataclass
class Figure:
    """A measured value; `about` says with what (the batch, the precision). None, and why, if nothing was measured."""
    value: object = None
    about: dict = dataclasses.field(default_factory=dict)
    why: str = ""


def cost(value):
    """The cost as a figure reports it: a cost below zero cannot be told from noise."""
    return None if value is None else max(0.0, value)


def row(name, ours, peer, unit, more_is_better=True, **more):
    """A row of two figures. A ratio above 1 is better than the peer, for times as for rates; None if a figure is
    missing, or is a cost too small to be measured."""
    ratio = None
    if ours.value is not None and peer.value is not None and min(ours.value, peer.value) > 0:
        ratio = ours.value / peer.value if more_is_better else peer.value / ours.value
    told = {"name": name, "ours": rounded(ours.value), "peer": rounded(peer.value), "ratio": rounded(ratio),
            "unit": unit}
    for who, figure in (("ours", ours), ("peer", peer)):
        told.update({f"{who}_{key}": value for key, value in figure.about.items()})
        if figure.why:
            told[f"{who}_why"] = figure.why
    return {**told, **{key: rounded(value) for key, value in more.items()}}


def tell(row):
    print(json.dumps(row), flush=True)


class Missing(Exception):
    """There is no figure; the message says why."""


def measured(measure):
    """The (value, about) of `measure`; any failure of it becomes Missing."""
    try:
        return measure()
    except (Missing, Failed, Skipped) as why:
        raise Missing(str(why)) from None
    except Exception as error:  # the other rows must still run
        raise Missing(f"{type(error).__name__}: {error}\n{traceback.format_exc()}") from None


def by_turns(contenders, rounds, complain=lambda text: print(text, file=sys.stderr)):
    """`contenders`: functions by name, each of which measures once and returns (value, about). Calls all of them in
    turn in each round. Returns a Figure by name: the median of the rounds. A contender that fails is not called
    again: its figure is that of the rounds before, if any, with the reason."""
    values, figures = {name: [] for name in contenders}, {name: Figure() for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            figure = figures[name]
            if figure.why:
                continue
            try:
                value, figure.about = measured(measure)
                values[name].append(value)
                figure.value = statistics.median(values[name])
            except Missing as why:
                figure.why = (str(why).strip().splitlines() or ["no reason"])[0]
                complain(f"bench: {name} could not be measured: {why}")
    return figures


def best(figures):
    """The highest figure; if there is none, the reasons."""
    there = [figure for figure in figures.values() if figure.value is not None]
    if there:
        return max(there, key=lambda figure: figure.value)
    return Figure(why="; ".join(f"{name}: {figure.why}" for name, figure in figures.items()))
