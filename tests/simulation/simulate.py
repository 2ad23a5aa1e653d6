"""Seeds of simulated days, side by side: `make simulate SEED=… DAYS=…`.

    python -m simulation.simulate --seed 7 --days 2        one seed
    python -m simulation.simulate --seeds 100              from --seed on; or for --minutes
    python -m simulation.simulate --where aws              the functions on AWS, instead of one machine

A seed that breaks a promise is printed with the fewest faults that still break it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from programs.reports import commit_here, with_part
from simulation.aws_world import simulation as on_aws
from simulation.world import simulation as on_one_machine
from simulation.world.oracle import Violation
from simulation.world.simulation import Length, Report

HOMES = {"machine": on_one_machine, "aws": on_aws}
LIVES = {"machine": "lives of the daemon", "aws": "invocations"}
LENGTHS = {"machine": Length(), "aws": Length(days=0.05, faults_a_day=500, quiet_seconds=1500)}
MARKS = {"machine": "<!-- campaign -->", "aws": "<!-- campaign on AWS -->"}


def reports(where: str, seeds: Iterator[int], length: Length, until: float) -> Iterator[Report | str]:
    """What each seed has come to, a report or the words of its violation, in the order in which they end."""
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future[Report | str]] = set()
        while True:
            while len(running) < workers and time.monotonic() < until and (seed := next(seeds, None)) is not None:
                running.add(pool.submit(outcome, where, seed, length))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def outcome(where: str, seed: int, length: Length) -> Report | str:
    backend = HOMES[where]
    try:
        report: Report = backend.run_seed(seed, length)
    except Violation as error:
        few = backend.shrink(seed, length)
        return f"{error}\n\nwith the fewest faults: {backend.command(seed, length, few)}"
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", choices=HOMES, default="machine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--days", type=float)
    parser.add_argument("--faults", type=float, help="a day")
    parser.add_argument("--quiet", type=int, help="seconds at the end in which all is well")
    parser.add_argument("--many", type=int, help="targets, where a seed has many")
    parser.add_argument("--minutes", type=float, default=0.0, help="go on with new seeds for so long")
    parser.add_argument("--report", type=Path, help="the document to write the table of what was run into")
    parser.add_argument("--only", help="here and now: the numbers of the faults that happen, or all")
    stated = parser.parse_args()
    length = stated_length(stated, LENGTHS[stated.where])
    if stated.only:
        only = None if stated.only == "all" else frozenset(map(int, filter(str.isdigit, stated.only.split(","))))
        for seed in range(stated.seed, stated.seed + stated.seeds):
            print(HOMES[stated.where].run_seed(seed, length, only))
        return 0
    seeds = count(stated.seed) if stated.minutes else iter(range(stated.seed, stated.seed + stated.seeds))
    until = time.monotonic() + 60 * stated.minutes if stated.minutes else float("inf")
    lives = LIVES[stated.where]
    outcomes = list(told(reports(stated.where, seeds, length, until), lives))
    if stated.report:
        table = table_of(outcomes, length, lives)
        document = stated.report.read_text()
        stated.report.write_text(with_part(document, MARKS[stated.where], f"\n{table}\n", "<!-- end -->"))
    return summarise(outcomes, lives)


def stated_length(stated: argparse.Namespace, usual: Length) -> Length:
    """As it was asked for, else as it is usual."""
    asked = {
        "days": stated.days,
        "faults_a_day": stated.faults,
        "quiet_seconds": stated.quiet,
        "many": stated.many,
    }
    return replace(usual, **{name: value for name, value in asked.items() if value is not None})


def told(outcomes: Iterator[Report | str], lives: str) -> Iterator[Report | str]:
    began = time.monotonic()
    for each in outcomes:
        if isinstance(each, Report):
            line = f"seed {each.seed}: {each.target_days:.1f} target-days, {each.lives} {lives}"
            print(f"{line}, {each.records} records, trace {each.digest[:12]}", flush=True)
        else:
            print(each, flush=True)
        yield each
    print(f"{time.monotonic() - began:.0f} s")


def faults_of(whole: Iterable[Report]) -> Counter[str]:
    return sum((report.faults for report in whole), Counter())


def table_of(outcomes: list[Report | str], length: Length, lives: str) -> str:
    """What was run, on which commit, and what came of it, as a table."""
    whole = [each for each in outcomes if isinstance(each, Report)]
    rows = {
        "commit": commit_here(),
        "seeds": f"{len(outcomes)}, each of {length.days:g} days with some {length.faults_a_day:g} faults a day",
        "target-days": f"{sum(report.target_days for report in whole):,.0f}",
        "minutes of one core": f"{cpu_minutes():.0f}",
        "requests": f"{sum(report.requests for report in whole):,}",
        "records": f"{sum(report.records for report in whole):,}",
        lives: f"{sum(report.lives for report in whole):,}",
        **{f"fault: {name}": f"{number:,}" for name, number in faults_of(whole).most_common()},
        "violations": str(len(outcomes) - len(whole)),
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])


def cpu_minutes() -> float:
    """How long cores were busy with it, here and in the processes that are over."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent) / 60


def summarise(outcomes: list[Report | str], lives: str) -> int:
    whole = [each for each in outcomes if isinstance(each, Report)]
    faults = faults_of(whole)
    days, minutes = sum(report.target_days for report in whole), cpu_minutes()
    print(f"{days:.0f} target-days, {len(whole)} seeds; {days / minutes:.0f} in a minute of one core")
    print(f"{sum(report.requests for report in whole)} requests, {sum(report.lives for report in whole)} {lives}")
    for name, number in faults.most_common():
        print(f"  {number:6} {name}")
    broken = len(outcomes) - len(whole)
    print(f"{broken} violations")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
