"""Sampler indices equal torch.utils.data.DistributedSampler's, bit for bit, over a grid."""

import itertools
import sys

from pytorch import Probe, torch
from torch.utils.data.distributed import DistributedSampler

SIZES = (1, 2, 3, 7, 10, 97, 1000, 60000)
REPLICAS = (1, 2, 3, 4, 5, 8, 16)
SEEDS = (0, 1, 42, 2**31 - 1, 2**32 + 5)
EPOCHS = (0, 1, 9)


def worth_trying(n, replicas, shuffle, seed, epoch, drop_last):
    if drop_last and n < replicas:
        return False  # an empty share, for which PyTorch fails an assertion
    if not shuffle:
        return (seed, epoch) == (0, 0)  # neither matters
    return n < 60000 or (seed in (0, 2**32 + 5) and epoch != 9)  # large sets take time


def grid():
    axes = (SIZES, REPLICAS, (False, True), SEEDS, EPOCHS, (False, True))
    for n, replicas, shuffle, seed, epoch, drop_last in itertools.product(*axes):
        if worth_trying(n, replicas, shuffle, seed, epoch, drop_last):
            for rank in sorted({0, replicas // 2, replicas - 1}):
                yield n, replicas, rank, shuffle, seed, epoch, drop_last


def expected(n, replicas, rank, shuffle, seed, epoch, drop_last):
    sampler = DistributedSampler(range(n), replicas, rank, shuffle, seed, drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)


def main():
    cases = list(grid())
    lines = [" ".join(str(int(field)) for field in case) for case in cases]
    answers = Probe(sys.argv[1], ".").run("sampler", stdin="\n".join(lines) + "\n")
    assert len(answers) == len(cases)
    wrong = [
        case
        for case, answer in zip(cases, answers)
        if [int(index) for index in answer.split()] != expected(*case)
    ]
    for case in wrong[:10]:
        print("n, replicas, rank, shuffle, seed, epoch, drop_last =", case, "differs")
    print(f"{len(cases)} cases against torch {torch.__version__}, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
