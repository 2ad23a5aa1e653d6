"""What hosts that hang or fail do to everybody else on AWS, and what they cost: a table of simulated cases.

    make bench-at-scale                                                     all cases, some minutes
    python -m bench.at_scale.hanging [--only "1,000"] [--seed NUMBER]

The simulation is that of `deliveries`, with the policy of the functions. Each case stands beside a run of the same
targets without ill ones. A live tick is late by the time that its message waited for a Collector.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src")]

from bench.at_scale.deliveries import FAIL, MINUTE, ONSET, TroubleCase, TroubleResult, TroubleRun  # noqa: E402

CASES = (
    *(TroubleCase(1000, ill) for ill in (0, 8, 20, 100)),
    TroubleCase(1000, 100, FAIL),
    TroubleCase(1000, 100, grows=True),
    TroubleCase(1000, 100, account=10),
    TroubleCase(1000, 100, FAIL, account=10),
    *(TroubleCase(100_000, ill) for ill in (0, 60, 1000, 10_000)),
    TroubleCase(100_000, 1000, grows=True),
    TroubleCase(100_000, 10_000, FAIL, minutes=20),
)
HEADS = (
    "targets and trouble",
    "onset minute: max, p99 late",
    "afterwards",
    "most later than healthy",
    "peak of live",
    "of retry",
    "all held after",
    "longest wait on retry",
    "left there",
    "more a month",
)


def columns(case: TroubleCase, result: TroubleResult, healthy: TroubleResult) -> Iterable[str]:
    """One line of the table."""
    yield str(case)
    for late in (result.lateness(ONSET, ONSET + MINUTE), result.lateness(ONSET + MINUTE)):
        yield f"{late[-1]:.2f}, {late[int(len(late) * 0.99)]:.2f} s"
    yield f"{result.later_than(healthy):.2f} s"
    yield from (f"{peak} of {limit}" for peak, limit in zip(result.peaks, result.limits, strict=True))
    if not case.ill:
        yield from ("", "", "", f"${result.dollars:,.2f} counted")
        return
    more = result.dollars - healthy.dollars
    yield f"{result.held_after:.0f} s"
    yield f"{result.longest_retry_wait:.0f} s"
    yield f"{result.retry_backlog}"
    yield f"${more:,.2f} ({more / healthy.dollars:.1%})"


@cache
def run(case: TroubleCase, seed: int) -> TroubleResult:
    """Run a case; mappings that grow have grown before as far as healthy targets need it."""
    grown_to = max(run(TroubleCase(case.targets, minutes=2), seed).peaks) if case.grows else 0
    return TroubleRun(case, seed, grown_to).run()


def main() -> None:
    parser = argparse.ArgumentParser(description="simulate hosts that hang or fail on AWS")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for case in CASES:
        if options.only in str(case):
            found = columns(case, run(case, options.seed), run(case.healthy, options.seed))
            print(f"| {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
