"""What the totals of closed hours take: every metric's, within half an hour of the reconciler's runs.

    python -m bench.at_scale.totals [--interval SECONDS] [targets …]

The reconciler is the one that is deployed, with the time that the stack gives it; DynamoDB is in memory
(tests/aws_here/closed_hours.py), without its waiting and without HTTP. So CPU is what counts, and what signing and
sending a call takes comes on top. It ends with a run that finds nothing left to do.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

from aws_here.closed_hours import ClosedHours  # noqa: E402

MOST_RUNS = 12  # an hour, in which every metric has one hour more


def make(targets: int, interval: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        closed = ClosedHours(targets, Path(folder), interval)
        for run in range(MOST_RUNS):
            made, calls = closed.run(), closed.aws.calls.total()
            in_time = "in time" if closed.in_time[-1] else "NOT in time"
            print(
                f"{targets:>7,} targets every {interval} s, run {run + 1:>2}: {made:>6,} totals, "
                f"{closed.seconds[-1]:6.2f} s of CPU, {in_time}, {calls:,} calls so far",
                flush=True,
            )
            if not made:
                break
        whole, missing = sum(closed.seconds), targets - len(closed.totals)
        a_target = whole / targets * 1000
        print(f"{targets:>7,} targets: {missing} without totals; {a_target:.2f} ms of CPU each", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="*", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--interval", type=int, default=5)
    options = parser.parse_args()
    logging.disable(logging.INFO)
    for targets in options.targets:
        make(targets, options.interval)


if __name__ == "__main__":
    main()
