"""Selects the mutations of the set: a number for each area, drawn by a seed."""

import hashlib
import itertools
import pathlib
import re

from mutations import mutations

# The files of each area, and the area's share of the set. A file belongs to the first area that names it.
AREAS = {
    "core": (("server/core/*.cc", "server/policy/*.cc", "worker/core/*.cc"), 24),
    "server": (("server/**/*.cc",), 22),
    "agent": (("worker/agent/**/*.cc", "base/program/repeated_reason.cc", "base/replace_file.cc"), 16),
    "store": (("store/*.cc", "store/wire/*.cc"), 14),
    "relay": (("store/relay/*.cc", "client/grpc_store_link.cc", "client/grpc_park_stream.cc"), 10),
    "dpctl": (("client/**/*.cc",), 14),
    "engine": (("worker/engine/**/*.cc",), 12),
    "trainer": (("worker/trainer/**/*.cc",), 12),
}
# Outside the tests that run here: program flags belong to end-to-end tests, and there are no GPUs
# or GPU libraries.
LEFT_OUT = re.compile(r"_test\.cc$|/testing/|(^|/)(guard_)?main\.cc$|cuda|nccl_|nvml|nvidia|gpu|/no_|_on_host")
EQUIVALENT = pathlib.Path(__file__).parent / "equivalent.txt"


def _named(top, area):
    return {str(path.relative_to(top)) for pattern in AREAS[area][0] for path in top.glob(pattern)}


def sources(top, area, is_production=lambda path: True):
    """The files of an area, sorted. `is_production` leaves out files that only test programs
    contain."""
    earlier = itertools.takewhile(lambda each: each != area, AREAS)
    paths = _named(top, area).difference(*(_named(top, each) for each in earlier))
    return sorted(path for path in paths if not LEFT_OUT.search(path) and is_production(path))


def read_equivalent(path=EQUIVALENT):
    """{identity: reason} of mutants that no test can tell from the program. Errors: ValueError."""
    known = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        identity, _, reason = line.partition(" ")
        if not reason.strip():
            raise ValueError(f"{path.name}:{number}: {identity} has no reason; write one behind it")
        known[identity] = reason.strip()
    return known


def order(candidates, seed):
    """The candidates in the order of the draw. Operators take turns, and within an operator
    files take turns, so that neither a frequent operator nor a long file dominates. Each place
    follows from the seed and the candidate's own identity, so an edit does not change the rest
    of the set."""
    lots = {each.id: hashlib.sha256(f"{seed} {each.id}".encode()).digest() for each in candidates}
    by_operator, of_file = {}, {}
    for each in sorted(candidates, key=lambda each: lots[each.id]):
        turn = of_file[each.operator, each.path] = of_file.get((each.operator, each.path), 0) + 1
        by_operator.setdefault(each.operator, []).append((turn, lots[each.id], each))
    rounds = itertools.zip_longest(*(sorted(by_operator[operator]) for operator in sorted(by_operator)))
    drawn = {}
    for _, _, each in filter(None, itertools.chain.from_iterable(rounds)):
        drawn.setdefault((each.path, each.line), each)  # one mutant per line
    return list(drawn.values())


def all_of(top, area, is_production=lambda path: True):
    return [each for path in sources(top, area, is_production) for each in mutations(path, (top / path).read_text())]


def draw(top, area, seed, is_production=lambda path: True):
    """All mutations of an area in the order of this seed. The first ones that compile make the
    set."""
    return order(all_of(top, area, is_production), f"{seed}:{area}")


def stale(top, equivalent):
    """Entries whose lines are no longer in the tree."""
    return sorted(set(equivalent) - {each.id for area in AREAS for each in all_of(top, area)})
