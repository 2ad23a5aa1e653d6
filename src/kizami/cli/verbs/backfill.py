"""`kizami backfill`: past slots go back on the queue, and the verb waits until they are settled."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import click

from kizami.backend.port import Backend, QueueWorker
from kizami.backend.targets import KnownTarget
from kizami.cli.backends import BackendOptions, backend_options
from kizami.cli.exit_codes import FAILURE, OK
from kizami.cli.metric_names import chosen_targets, metrics_argument
from kizami.cli.ranges import TimeRange, range_options
from kizami.cli.terminal.colours import is_terminal
from kizami.cli.terminal.printing import json_option, plural, print_json, say
from kizami.cli.verbs.gaps import gap_list, print_gaps, span_of
from kizami.core.backfill import left_out_words, plan_backfill
from kizami.core.coverage import Gap, Span, count_slots
from kizami.core.errors import InvalidInput
from kizami.core.messages import ScheduleMessage
from kizami.core.slots import shift

MOST_LOOKED_THROUGH = 200_000_000
MOST_QUEUED = 5_000_000  # what is on the queue takes room in the database


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is about: the missing slots of each metric's span, and those that are queued already."""

    targets: Mapping[str, KnownTarget]
    spans: Mapping[str, Span]
    gaps: Mapping[str, Sequence[Gap]]
    waiting: int
    unstored: int
    damaged: int = 0  # stored slots of damaged history, to be given up and asked for again

    @property
    def missing(self) -> int:
        """How many slots are to be put on the queue."""
        return count_slots(chain.from_iterable(self.gaps.values()))

    def messages(self) -> Iterator[ScheduleMessage]:
        """Metric by metric, oldest first."""
        return chain.from_iterable(plan_backfill(self.targets[name], gaps) for name, gaps in self.gaps.items())


@click.command(short_help="Collect past slots.")
@metrics_argument
@click.option("--gaps", "only_gaps", is_flag=True, help="What is missing since the metrics were first polled.")
@range_options(default_last="24h")
@click.option("--dry-run", is_flag=True, help="Show what would be asked for, and ask for nothing.")
@click.option("--no-wait", is_flag=True, help="Put the slots on the queue and leave.")
@json_option
@backend_options
def command(
    metrics: tuple[str, ...],
    only_gaps: bool,
    time_range: TimeRange,
    dry_run: bool,
    no_wait: bool,
    as_json: bool,
    backend_options: BackendOptions,
) -> int:
    """Ask for past slots of METRIC (or of all that are polled) that have no record.

    With --gaps for those that are missing, by default in the last 24 hours. With a range alone for all of
    its slots, also from before the metric was first polled. It can be interrupted and repeated at any time:
    nothing is asked for twice. The running `kizami up` collects them; if none runs, this process does. Targets
    with backfill = false are left out.
    """
    if time_range.is_default and not only_gaps:
        raise click.UsageError("Say which slots: --gaps, or --from and --to, or --last.")
    with backend_options.opened() as backend:
        chosen = chosen_targets(backend, metrics)
        if live_only := [name for name, target in chosen.items() if not target.backfill]:
            say(left_out_words(live_only))
        targets = {name: target for name, target in chosen.items() if target.backfill}
        plan = make_plan(backend, targets, time_range, only_gaps, is_repair=not dry_run)
        if dry_run:
            return _show(plan, as_json)
        if no_wait:
            return _leave(_send(backend, _without_damaged(backend, plan)), as_json)
        return _run(backend, plan, as_json)


def make_plan(
    backend: Backend,
    targets: Mapping[str, KnownTarget],
    time_range: TimeRange,
    only_gaps: bool,
    *,
    is_repair: bool,
) -> Plan:
    """What there is to do; InvalidInput if it is more than one run should take on.

    With `is_repair` damaged history that lies in the range as a whole is to be asked for again.
    """
    wanted = time_range.start, time_range.end, time_range.now
    for target in targets.values() if not only_gaps else ():
        target.require_kept(time_range.start, "--from")
    spans = {
        name: span_of(target, time_range) if only_gaps else target.whole(*wanted)
        for name, target in targets.items()
    }
    _require_at_most(MOST_LOOKED_THROUGH, sum(span.expected for span in spans.values()))
    damaged = backend.count_damaged(spans) if is_repair else 0
    plan = Plan(
        targets, spans, backend.missing(spans), backend.queued(spans), _count_unstored(backend, spans), damaged
    )
    _require_at_most(MOST_QUEUED, plan.missing + damaged)
    return plan


def _without_damaged(backend: Backend, plan: Plan) -> Plan:
    """The plan once its damaged history is given up, right before it is asked for again."""
    if not plan.damaged:
        return plan
    say(
        f"{plural(backend.forget_damaged(plan.spans), 'damaged piece')} of history given up, to be asked for again"
    )
    spans = plan.spans
    return Plan(
        plan.targets, spans, backend.missing(spans), backend.queued(spans), _count_unstored(backend, spans)
    )


def _require_at_most(most: int, slots: int) -> None:
    if slots > most:
        raise InvalidInput("--from", f"{slots:,} slots are too many for one run (at most {most:,}); take a part")


def _show(plan: Plan, as_json: bool) -> int:
    if as_json:
        print_json({"missing": plan.missing, "waiting": plan.waiting, "gaps": gap_list(plan.gaps)})
    else:
        print_gaps(plan.gaps)
    say(f"{_task_words(plan)}; nothing was done")
    return OK


def _run(backend: Backend, plan: Plan, as_json: bool) -> int:
    asked = stored = 0
    if plan.missing or plan.waiting or plan.damaged:
        plan, asked = _have_collected(backend, plan)
        stored = min(asked, plan.unstored - _count_unstored(backend, plan.spans))
    if as_json:
        print_json({"asked": asked, "stored": stored, "gaps": gap_list(plan.gaps)})
    if stored < asked:
        say(f"{stored:,} of {plural(asked, 'slot')} stored; {_why_not_all(backend, plan)}")
        return FAILURE
    say(f"{plural(stored, 'slot')} stored")
    return OK


def _why_not_all(backend: Backend, plan: Plan) -> str:
    blocked = {
        name: each.error for name, each in backend.troubles().items() if name in plan.spans and each.is_blocked
    }
    if not blocked:
        return "`kizami dead-letters list` says why not the others"
    name, error = next(iter(blocked.items()))
    others = f" (and {plural(len(blocked) - 1, 'other target')})" if len(blocked) > 1 else ""
    return f"the others are asked for when {name}{others} answers: {error}"


def _leave(queued: int, as_json: bool) -> int:
    if as_json:
        print_json({"asked": queued})
    say(f"{plural(queued, 'slot')} put on the queue, for `kizami up` to collect")
    return OK


def _have_collected(backend: Backend, plan: Plan) -> tuple[Plan, int]:
    """Put the missing slots on the queue and wait until they are settled; the plan now, and how many they were."""
    try:
        with backend.worker(plan.gaps) as worker:
            plan = _without_damaged(backend, plan)
            say(f"{_task_words(plan)}; {worker.words}")
            asked = _send(backend, plan) + plan.waiting
            _wait(worker, plan, asked)
            return plan, asked
    except KeyboardInterrupt:
        say("interrupted; what is queued stays queued, and the same command goes on from here")
        raise


def _task_words(plan: Plan) -> str:
    missing = f"{plural(plan.missing, 'slot')} to ask for" if plan.missing or not plan.waiting else ""
    waiting = f"{plural(plan.waiting, 'slot')} on the queue already" if plan.waiting else ""
    return ", ".join(filter(None, (missing, waiting)))


def _count_unstored(backend: Backend, spans: Mapping[str, Span]) -> int:
    return sum(told.missing for told in backend.completeness(spans).values())


def _send(backend: Backend, plan: Plan) -> int:
    sent = backend.backfill(plan.messages())
    for name in plan.gaps:
        target, span = plan.targets[name], plan.spans[name]
        # A past that joins the present is expected from now on; one that stands apart is not.
        if span.start < target.first_slot <= shift(span.end, 2 * target.interval_seconds + target.lag_seconds):
            backend.expect_from(name, span.start)
    return sent


def _wait(worker: QueueWorker, plan: Plan, asked: int) -> None:
    """Until none of the slots is on the queue any more, with a bar on a terminal."""
    hidden = not is_terminal(sys.stderr)
    with click.progressbar(length=asked, show_pos=True, file=sys.stderr, hidden=hidden) as bar:
        while left := worker.left(plan.spans):
            worker.check()
            bar.update(max(0, asked - left - bar.pos))
            time.sleep(worker.look_seconds)
        bar.update(asked - bar.pos)
