"""The arithmetic of the benchmarks: medians of rounds by turns, rows, and shares of a card's peak."""

import dataclasses
import json
import statistics
import sys
import traceback

from checks import Failed, Skipped

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


@dataclasses.dataclass
class Figure:
    """What was measured, `about` says with what (the batch, the precision); None, and why, where nothing was."""
    value: object = None
    about: dict = dataclasses.field(default_factory=dict)
    why: str = ""


def cost(value):
    """As a figure is told: one below zero is nothing that could be told from noise."""
    return None if value is None else max(0.0, value)


def row(name, ours, peer, unit, more_is_better=True, **more):
    """Of two figures. A ratio above 1 is better than the peer, for times as for rates; None where one is missing,
    or costs nothing that could be measured."""
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
    """Why there is no figure."""


def measured(measure):
    """What it measured as (value, about); whatever keeps it from that is Missing."""
    try:
        return measure()
    except (Missing, Failed, Skipped) as why:
        raise Missing(str(why)) from None
    except Exception as error:  # the other rows are worth their time
        raise Missing(f"{type(error).__name__}: {error}\n{traceback.format_exc()}") from None


def by_turns(contenders, rounds, complain=lambda text: print(text, file=sys.stderr)):
    """`contenders`: functions by name, each of which measures once and returns (value, about). One after the other
    in each round; the Figure of each by name, which is the median of the rounds. Who could not be measured is asked
    no more: its figure is that of the rounds before, if any, and says why."""
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
    """The highest; where there is none, why."""
    there = [figure for figure in figures.values() if figure.value is not None]
    if there:
        return max(there, key=lambda figure: figure.value)
    return Figure(why="; ".join(f"{name}: {figure.why}" for name, figure in figures.items()))
