"""How a minute that nobody sent heals: reconciler, backfill queue, Collector, table and ledger.

    python -m bench.at_scale.healing [--interval SECONDS] [targets …]

The functions are those that are deployed, each with the time that the stack gives it; SQS and DynamoDB are in
memory (tests/aws_here/memory_aws.py), with AWS's limits and without its waiting, and so is the polled API. So CPU
is what counts: of the reconciler's runs, and of a slot through the Collector. It ends when all is stored.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests")]

from aws_here.healing import Healing  # noqa: E402
from kizami.cdk.reconciling import messages_a_minute  # noqa: E402
from kizami.core.targets.bundles import make_bundles  # noqa: E402
from kizami.core.targets.target import Target  # noqa: E402

MOST_RUNS = 24  # two hours: what is missing then is older than the reconciler looks back


def heal(targets: int, interval: int) -> None:
    bundles = make_bundles(Target(name=name) for name in Healing.names_of(targets))
    with tempfile.TemporaryDirectory() as folder:
        healing = Healing(targets, Path(folder), interval, limit=max(1000, messages_a_minute(bundles)))
        started = time.process_time()
        runs = healing.heal(MOST_RUNS)
        whole = time.process_time() - started
        missing = len(healing.wanted() - healing.stored())
    slots = targets * 60 // interval
    longest = max(healing.reconciler_seconds)
    collector = (whole - sum(healing.reconciler_seconds)) / slots * 1000
    print(
        f"{targets:>7,} targets every {interval} s: {slots:,} slots, {missing} missing after {runs} runs of the"
        f" reconciler, the longest {longest:.2f} s of CPU; {collector:.3f} ms a slot besides",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="*", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--interval", type=int, default=5)
    options = parser.parse_args()
    for targets in options.targets:
        heal(targets, options.interval)


if __name__ == "__main__":
    main()
