"""What a plan's bundles must hold: ticks, what is sealed of them, marks and messages, change by change."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime

from kizami.aws.marks import MARKS, read_marks
from kizami.aws.plans import NOW, PLANS, read_present
from kizami.aws.sealed import DAYS, SPANS, SUMMARIES, _day_of, _span_of, _summary_of
from kizami.aws.ticks import PREFIX, read_tick
from kizami.core.bundles import Bundle, BundlePlan, OwnedRange, Period, owned_ranges
from kizami.core.epoch import from_seconds, to_seconds
from kizami.core.errors import InvalidInput
from kizami.core.merging import HourFigures
from kizami.core.messages import BACKFILL, LIVE, PROBE, RETRY, BundleMessage, read_bundle
from kizami.core.recovery import Mark, live_ranges
from kizami.core.slots import format_instant, parse_instant
from kizami.core.summaries import Absence, BundleSummary
from kizami.core.ticks import Answered, Tick
from simulation.aws_world.containers import CURRENT
from simulation.aws_world.deployment import METRICS, Deployment
from simulation.aws_world.dynamodb import SimulatedDynamoDb
from simulation.aws_world.expressions import Item
from simulation.aws_world.sqs import Message, SimulatedQueue
from simulation.world.apis import Asked
from simulation.world.timeline import SECOND, Timeline

LANES = {"live": {LIVE}, "retry": {RETRY, PROBE}, "backfill": {BACKFILL}}
_DEPLOYING_SECONDS = 60  # after which no container of the deployment before runs any more
_RECOVERED_SECONDS = 960 + 300 + 600  # after it was due a lost slot is there: by a grace, a run, and some attempts
_HOUR = 3600

Slot = tuple[str, int]  # of which metric, which one


class TicksOracle:
    """What the members of all bundles have answered first, and everything that is written about it."""

    def __init__(
        self,
        timeline: Timeline,
        queues: Mapping[str, SimulatedQueue],
        answers: Mapping[Slot, Collection[int]],
        broken: Callable[[str], None],
        happened: Callable[..., None],
    ) -> None:
        self.bundles: dict[str, Bundle] = {}
        self.first: dict[Slot, tuple[str, int]] = {}  # the bundle and the value that was stored first
        self.sealed: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)  # by metric and interval
        self._timeline = timeline
        self._queues = queues
        self._answers = answers
        self._broken = broken
        self._happened = happened
        self._details: dict[tuple[str, int, int], Answered] = {}  # by bundle, slot and place
        self._versions: dict[tuple[str, int, int], dict[int, dict[int, int]]] = defaultdict(dict)
        self._stored_at: dict[tuple[str, int, int], int] = {}  # of those whose tick is there
        self._letters: set[tuple[str, int, str]] = set()  # by bundle, slot and target
        self._owners_at: list[Period] = []  # the periods by which owners were found
        self._owners: dict[str, list[OwnedRange]] = {}
        self._deployments: list[tuple[int, Deployment]] = []
        self._dynamodb: SimulatedDynamoDb | None = None

    def watch(self, dynamodb: SimulatedDynamoDb) -> None:
        self._dynamodb = dynamodb

    def deployed(self, deployment: Deployment) -> None:
        self._deployments.append((self._timeline.now, deployment))
        self.bundles |= {bundle.name: bundle for bundle in deployment.plan.bundles}

    @property
    def items(self) -> Mapping[tuple[str, str], Item]:
        """The table."""
        assert self._dynamodb is not None
        return self._dynamodb.tables[METRICS].items

    # What changes

    def changed(self, before: Item | None, after: Item | None) -> None:
        """An item of the table is about to change."""
        item = after or before
        assert item is not None
        partition = item["metricName"]["S"]
        if partition.startswith(PREFIX):
            self._tick_changed(self.bundles[partition.removeprefix(PREFIX)], before, after)
        elif partition.startswith(SPANS):
            self._span_changed(before, after)
        elif partition.startswith(SUMMARIES):
            self._summary_changed(self.bundles[partition.removeprefix(SUMMARIES)], before, after)
        elif partition.startswith(DAYS):
            self._day_changed(before, after)
        elif partition == MARKS and "." in item["slotTime"]["S"]:
            self._mark_changed(self.bundles[item["slotTime"]["S"]], before, after)
        elif not partition.startswith("#"):
            self._broken(f"{partition} {item['slotTime']['S']} is stored as a row")

    def _tick_changed(self, bundle: Bundle, before: Item | None, after: Item | None) -> None:
        was = read_tick(before, bundle) if before else None
        if after is None:
            assert was is not None
            self._happened("tick:deleted", bundle.name, was.slot)
            self._require_sealed(bundle, was)
            return
        tick = read_tick(after, bundle)
        if was is None and tick.slot < _mark(bundle, self.items.get((MARKS, bundle.name))).sealed_until:
            self._happened("tick:again", bundle.name, tick.slot)
        if tick.held - (was.held if was else frozenset()):
            self._happened("tick:held", bundle.name, tick.slot)
        known = was.answers if was else {}
        for place, answer in known.items():
            if tick.answers.get(place) != answer:
                self._broken(f"{_tick_name(bundle, tick)}: {place} was {answer}, and is {tick.answers.get(place)}")
        for place in tick.answers.keys() - known.keys():
            self._note(bundle, tick, place)
        for place in tick.dead - (was.dead if was else frozenset()):
            self._require_letter(bundle, tick, place)

    def _note(self, bundle: Bundle, tick: Tick, place: int) -> None:
        """A member's answer is stored: an answer that its API gave, and the first one, unless that is sealed."""
        slot, answer, member = to_seconds(tick.slot), tick.answers[place], bundle.members[place]
        name = f"{member.name} {format_instant(tick.slot)} in {bundle.name}"
        if answer.decimals or len(answer.values) != len(member.metrics):
            self._broken(f"{name} is stored as {answer}")
            return
        if answer.values != tuple((number + 1) * answer.values[0] for number in range(len(answer.values))):
            self._broken(f"{name} has values of two answers: {answer.values}")
        is_new = (bundle.name, slot, place) not in self._details
        for metric, value in zip(member.metrics, answer.values, strict=True):
            if value not in self._answers.get((metric, slot), ()):
                self._broken(f"{name} is stored as {value}, which no API has ever answered")
            if not self._owns(bundle, metric, slot):
                continue  # a deployment made the lag longer: the plan before has asked for the slot, too
            self.first.setdefault((metric, slot), (bundle.name, value))
            if not is_new and slot not in self.sealed[metric, bundle.interval_seconds]:
                self._broken(f"{name} is stored again, and was not sealed")
        if is_new:
            self._details[bundle.name, slot, place] = answer
        self._stored_at[bundle.name, slot, place] = self._timeline.now

    def _require_sealed(self, bundle: Bundle, tick: Tick) -> None:
        """A tick may go when everything that it says is sealed, and nothing more is expected of it."""
        slot, name = to_seconds(tick.slot), _tick_name(bundle, tick)
        for place, member in enumerate(bundle.members):
            self._stored_at.pop((bundle.name, slot, place), None)
            if place in tick.answers:
                for metric in member.metrics:
                    if not self._owns(bundle, metric, slot):
                        continue
                    value = self.sealed[metric, bundle.interval_seconds].get(slot)
                    if (bundle.name, value) != self.first[metric, slot]:
                        self._broken(f"{name} is deleted, and {metric} is sealed as {value}")
            elif place in tick.outstanding:
                self._broken(f"{name} is deleted, and {member.name} is outstanding")
            elif place in tick.dead | tick.held and (bundle.name, slot, place) not in self._details:
                state = Absence.DEAD if place in tick.dead else Absence.HELD
                if self._absence(bundle, place, slot) is not state:
                    self._broken(f"{name} is deleted, and that {member.name} is {state.name} is not sealed")

    def _absence(self, bundle: Bundle, place: int, slot: int) -> Absence | None:
        """What the summary says of a member that lacks a slot."""
        for key in self._summary_keys(bundle, slot):
            summary = _summary_of(self.items[key])[1].summary
            for run in summary.runs(place, slot, slot + bundle.interval_seconds):
                return run.state
        return None

    def _summary_keys(self, bundle: Bundle, slot: int) -> Iterator[tuple[str, str]]:
        assert self._dynamodb is not None
        partition, last = SUMMARIES + bundle.name, format_instant(from_seconds(slot))
        for start in reversed(self._dynamodb.tables[METRICS].order.get(partition, ())):
            if start <= last:
                yield partition, start
                return

    def _require_letter(self, bundle: Bundle, tick: Tick, place: int) -> None:
        """Whom a tick gives up has a dead letter, unless it is no target any more."""
        name, now = bundle.names[place], self._timeline.now
        if (bundle.name, to_seconds(tick.slot), name) in self._letters:
            return
        newer = [since for since, _ in self._deployments[1:]]
        for (_, deployment), ended in zip(self._deployments, [*newer, now], strict=True):
            target = deployment.target(name)
            if now - ended <= _DEPLOYING_SECONDS * SECOND and (
                target is None or target.metrics != bundle.members[place].metrics
            ):
                return
        self._broken(f"{_tick_name(bundle, tick)}: {name} is given up without a dead letter")

    def _span_changed(self, before: Item | None, after: Item | None) -> None:
        """A sealed span only ever gets more slots, each with its first answer and how it came about."""
        if after is None:
            self._broken(f"a span is gone: {before}")
            return
        span = _span_of(after)
        slots = span.unpack()
        key, known = span.key, self.sealed[span.key.metric, span.key.interval_seconds]
        columns, name = slots.columns, f"the span {format_instant(from_seconds(key.start))} of {key.metric}"
        found = dict(zip(columns.slot, columns.count, strict=True))
        self._happened("span:merged" if before else "span:sealed", key.metric, key.start)
        if before is not None:
            was = _span_of(before)
            if span.version != was.version + 1:
                self._broken(f"{name} went from version {was.version} to {span.version}")
            if lost := set(was.unpack().columns.slot) - found.keys():
                self._broken(f"{name} has lost {sorted(lost)[:3]}")
        elif span.version != 1:
            self._broken(f"{name} begins with version {span.version}")
        for number, slot in enumerate(columns.slot):
            owner, value = self.first.get((key.metric, slot), ("", None))
            if found[slot] != value:
                self._broken(f"{name}: {slot} is sealed as {found[slot]}, its first answer was {value}")
                continue
            bundle = self.bundles[owner]
            place = next(place for place, each in enumerate(bundle.members) if key.metric in each.metrics)
            answer = self._details[owner, slot, place]
            collected = 1000 * (slot + bundle.lag_seconds) + answer.after_ms
            expected = collected, answer.attempts, int(answer.backfill)
            if (columns.collected_ms[number], columns.receives[number], columns.backfilled[number]) != expected:
                self._broken(f"{name}: {slot} is sealed otherwise than {answer}")
        known |= found
        self._versions[key.metric, key.interval_seconds, key.start][span.version] = found

    def _summary_changed(self, bundle: Bundle, before: Item | None, after: Item | None) -> None:
        """What a summary counts as stored is sealed, and stays so."""
        if after is None:
            self._broken(f"a summary is gone: {before}")
            return
        (_, start), (version, summary) = _summary_of(after)
        was = _summary_of(before)[1] if before else None
        name = f"the summary {format_instant(from_seconds(start))} of {bundle.name}"
        if version != (was.version if was else 0) + 1:
            self._broken(f"{name} went from version {was and was.version} to {version}")
        for place, member in enumerate(bundle.members):
            stored = _stored(summary, place)
            for metric in member.metrics:
                left = stored - self.sealed[metric, bundle.interval_seconds].keys()
                if left := {slot for slot in left if self._owns(bundle, metric, slot)}:
                    self._broken(f"{name} has {sorted(left)[:3]} of {metric} as stored, which are not sealed")
            if was and (lost := _stored(was.summary, place) - stored):
                self._broken(f"{name} lacks {sorted(lost)[:3]} of {member.name} by now")

    def _day_changed(self, before: Item | None, after: Item | None) -> None:
        """Figures are those of the version of a span that they name."""
        if after is None:
            self._broken(f"figures are gone: {before}")
            return
        key, _ = _day_of(after)
        changed = {name for name in after if name[:1] == "h" and after[name] != (before or {}).get(name)}
        for name in changed:
            start = key.start + int(name[1:]) * _HOUR
            version = int.from_bytes(base64.b64decode(after[name]["B"])[:4], "big")
            spans = [
                versions[version]
                for (metric, interval, first), versions in self._versions.items()
                if (metric, interval) == key[::2] and max(first, key.start) == start and version in versions
            ]
            within = {slot: count for each in spans for slot, count in each.items() if slot < key.start + 86_400}
            _, parts = _day_of({field: after[field] for field in ("metricName", "slotTime", name)})
            if parts != _figures({slot: count for slot, count in within.items() if slot >= start}):
                self._broken(f"the figures of {key} from {name} on are {parts}, of {within}")

    def _mark_changed(self, bundle: Bundle, before: Item | None, after: Item | None) -> None:
        """A mark moves on only over slots of which it knows what they lack."""
        was = _mark(bundle, before)
        if after is None:
            self._require_no_tick(bundle, None)
            return
        mark = _mark(bundle, after)
        if was.version and (mark.seen_until < was.seen_until or mark.sealed_until < was.sealed_until):
            self._broken(f"the mark of {bundle.name} went back from {was} to {mark}")
        for day in was.late_days.keys() - mark.late_days.keys():
            self._require_no_tick(bundle, f"{day}")
        if mark.version != was.version:
            if any(run.is_mixed for run in mark.runs):
                self._happened("mark:mixed", bundle.name)
            self._require_known(bundle, mark)

    def _require_known(self, bundle: Bundle, mark: Mark) -> None:
        """Of each slot that was looked at and is not sealed, members are stored or in a run of the mark."""
        lacking: dict[int, set[int]] = defaultdict(set)
        for run in mark.runs:
            for slot in range(to_seconds(run.start), to_seconds(run.end), bundle.interval_seconds):
                lacking[slot] |= run.missing | run.dead | run.held
        for start, end in self.live(bundle):
            first, last = max(start, to_seconds(mark.sealed_until)), min(end, to_seconds(mark.seen_until))
            for slot in range(
                -(-first // bundle.interval_seconds) * bundle.interval_seconds, last, bundle.interval_seconds
            ):
                for place, member in enumerate(bundle.members):
                    if place not in lacking[slot] and (bundle.name, slot, place) not in self._details:
                        told = f"the mark of {bundle.name} has passed {format_instant(from_seconds(slot))}"
                        self._broken(f"{told}, which {member.name} lacks")
                        return

    def _require_no_tick(self, bundle: Bundle, day: str | None) -> None:
        assert self._dynamodb is not None
        sealed_until = format_instant(_mark(bundle, self.items.get((MARKS, bundle.name))).sealed_until)
        for slot in self._dynamodb.tables[METRICS].order.get(PREFIX + bundle.name, ()):
            if day is None or (slot.startswith(day) and slot < sealed_until):
                self._broken(f"the tick {slot} of {bundle.name} is there, and its mark does not say so any more")

    def periods(self) -> list[Period]:
        """The periods that were sent by one plan each, oldest first."""
        assert self._dynamodb is not None
        order = self._dynamodb.tables[METRICS].order.get(PLANS, ())
        if NOW not in order:
            return []
        found = [read_present(self.items[PLANS, NOW])]
        for start in reversed(order):
            if start != NOW and parse_instant(start) < found[-1].start:
                found.append(Period(self.items[PLANS, start]["g"]["S"], parse_instant(start), found[-1].start))
        return found[::-1]

    def _owns(self, bundle: Bundle, metric: str, slot: int) -> bool:
        """Whether it is this bundle that holds the slot; of two plans it is the one that had its turn first."""
        periods = self.periods()
        if self._owners_at != periods:
            self._owners_at, self._owners = periods, {}
        if metric not in self._owners:
            plans = {name: self._plan(name) for name in {period.plan for period in periods}}
            known = [(period, plans[period.plan]) for period in periods]
            self._owners[metric] = owned_ranges(metric, known)
        moment = from_seconds(slot)
        return any(each.owns(moment) and each.bundle.name == bundle.name for each in self._owners[metric])

    def _plan(self, name: str) -> BundlePlan:
        return BundlePlan(name, tuple(bundle for bundle in self.bundles.values() if bundle.plan == name))

    def live(self, bundle: Bundle) -> list[tuple[int, int]]:
        """The slots that its plan sends, by beginnings and ends."""
        ranges = live_ranges(bundle, self.periods())
        return [(to_seconds(each.start), to_seconds(each.end) if each.end else 1 << 40) for each in ranges]

    # Requests

    def asked(self, asked: Asked) -> None:
        """A slot that was there when an invocation began is asked for by a first live delivery only."""
        container = CURRENT.get(None)
        if container is None:
            return
        for id in container.deliveries:
            queue = self._queues[id.partition("-")[0]]
            message = queue.messages.get(id)
            if message is None or (queue.name == "live" and id in container.received_first):
                return  # it takes for granted that there is no tick
            said = _read(message)
            bundle = self.bundles.get(said.bundle) if said else None
            if said and bundle and asked.name in said.metrics and asked.slot in self._slots(said):
                at = self._stored_at.get((bundle.name, asked.slot, bundle.places[asked.name]), self._timeline.now)
                if at < container.began:
                    self._broken(f"{asked} was stored before {id} was received, and is asked for again")

    # Queues

    def sent(self, queue: SimulatedQueue, message: Message, limit: int) -> None:
        """A message was put on a queue: one of its lane, whose members may be tried again."""
        said = _read(message)
        if said is None:
            return
        self._happened(f"sent:{queue.name}:{said.lane}", message.id)
        if queue.name == "dead":
            self._letters |= {(said.bundle, slot, name) for slot in self._slots(said) for name in said.metrics}
        elif queue.name in LANES and said.bundle and said.lane not in LANES[queue.name]:
            self.broken_message(message, f"is of lane {said.lane}, and on the queue {queue.name}")
        elif any(made >= limit for made in said.attempts):
            self.broken_message(message, f"comes after {said.attempts} of {limit} attempts")

    def broken_message(self, message: Message, words: str) -> None:
        self._broken(f"{message.id} {words}: {message.body}")

    def settled(self, message: Message) -> None:
        """A message is deleted: what it asked for is stored, or something else works on it."""
        said = _read(message)
        bundle = self.bundles.get(said.bundle) if said else None
        if said is None or bundle is None or not bundle.backfill:
            return
        open_slots = [
            (slot, name)
            for slot in self._slots(said)
            for name in said.metrics
            if not self._is_seen_to(bundle, slot, name)
        ]
        if open_slots and (lost := set(open_slots) - self._waiting(bundle, message)):
            slots = [f"{name} {format_instant(from_seconds(slot))}" for slot, name in sorted(lost)[:3]]
            self.broken_message(message, f"is settled, but {slots} are nowhere")

    def _is_seen_to(self, bundle: Bundle, slot: int, name: str) -> bool:
        place = bundle.places.get(name)
        if place is None or (bundle.name, slot, place) in self._details:
            return True
        item = self.items.get((PREFIX + bundle.name, format_instant(from_seconds(slot))))
        if item is None:
            return self._absence(bundle, place, slot) in (Absence.DEAD, Absence.HELD)
        tick = read_tick(item, bundle)
        return place in tick.dead or place in tick.held

    def _waiting(self, bundle: Bundle, except_for: Message | None = None) -> set[tuple[int, str]]:
        """The slots of a bundle that messages are about, or dead letters."""
        found = set()
        for name in (*LANES, "dead"):
            for message in self._queues[name].messages.values():
                if message is not except_for and f'"{bundle.name}"' in message.body:
                    said = read_bundle(message.body)
                    found |= {(slot, member) for slot in self._slots(said) for member in said.metrics}
        return found

    def _slots(self, said: BundleMessage) -> range:
        bundle = self.bundles.get(said.bundle)
        edges = to_seconds(said.window.start), to_seconds(said.window.end)
        return range(*edges, bundle.interval_seconds) if bundle else range(0)

    # All of it

    def check_kept(self) -> dict[Slot, int]:
        """Return all that is stored, by its items: exactly what was ever stored."""
        found: dict[Slot, int] = {}
        for (partition, _), item in self.items.items():
            if partition.startswith(PREFIX):
                bundle = self.bundles[partition.removeprefix(PREFIX)]
                tick = read_tick(item, bundle)
                slot = to_seconds(tick.slot)
                for place, answer in tick.answers.items():
                    for metric, value in zip(bundle.members[place].metrics, answer.values, strict=True):
                        if self._owns(bundle, metric, slot):
                            found[metric, slot] = value
        for (partition, _), item in self.items.items():
            if partition.startswith(SPANS):
                span = _span_of(item)
                columns = span.unpack().columns
                found |= {(span.key.metric, slot): count for slot, count in zip(*columns[:2], strict=True)}
        known = {slot: value for slot, (_, value) in self.first.items()}
        if found != known:
            wrong = [key for key in found.keys() | known.keys() if found.get(key) != known.get(key)]
            metric, slot = min(wrong)
            told = f"{metric} {format_instant(from_seconds(slot))} is {found.get((metric, slot))}"
            self._broken(f"{told}, its first answer was {known.get((metric, slot))}; so are {len(wrong)}")
        return found

    def check_whole(self, now: datetime) -> None:
        """After a quiet time each slot that was due is stored, or was given up with a dead letter."""
        self.check_kept()
        assert self._dynamodb is not None
        deployment = self._deployments[-1][1]
        until = to_seconds(now) - _RECOVERED_SECONDS
        for target in deployment.config.enabled_targets:
            if not target.backfill:
                continue
            slots = list(self.due(target.metrics[0], until))
            if not slots and not self.periods():
                self._broken(f"{target.name} was never due")
            for bundle, slot in slots:
                if bundle.backfill and not self._is_in_the_end(bundle, slot, target.name):
                    self._broken(
                        f"{target.name} still lacks {format_instant(from_seconds(slot))} after a quiet time"
                    )
                    break

    def due(self, metric: str, until: int) -> Iterator[tuple[Bundle, int]]:
        """The slots of a metric that were due in all periods whose plan has it, each with its bundle."""
        plans: dict[str, dict[str, Bundle]] = {bundle.plan: {} for bundle in self.bundles.values()}
        for known in self.bundles.values():
            for member in known.members:
                plans[known.plan] |= dict.fromkeys(member.metrics, known)
        found: dict[int, Bundle] = {}
        before: Bundle | None = None
        end_before = 0
        for period in self.periods():
            bundle = plans[period.plan].get(metric)
            if bundle is not None:
                step = bundle.interval_seconds
                start = _live_from(bundle, period.start)
                if before is not None:
                    start = end_before  # no plan has sent what lies between them, if a lag became shorter
                end = _live_from(bundle, period.end) if period.end else until - bundle.lag_seconds + 1
                for slot in range(-(-start // step) * step, end, step):
                    found.setdefault(slot, bundle)
                end_before = max(end, start)
            before = bundle
        yield from ((bundle, slot) for slot, bundle in sorted(found.items(), key=lambda each: each[0]))

    def _is_in_the_end(self, bundle: Bundle, slot: int, name: str) -> bool:
        """Whether it is stored, or given up as its tick or what is sealed of it says."""
        place = bundle.places[name]
        if (bundle.name, slot, place) in self._details:
            return True
        item = self.items.get((PREFIX + bundle.name, format_instant(from_seconds(slot))))
        if item is not None and place in read_tick(item, bundle).dead:
            return True
        return self._absence(bundle, place, slot) is Absence.DEAD


def _read(message: Message) -> BundleMessage | None:
    try:
        return read_bundle(message.body)
    except InvalidInput:
        return None  # none of ours


def _live_from(bundle: Bundle, minute: datetime) -> int:
    """The beginning of the slots that a period sends that begins or ends then."""
    return to_seconds(minute) - bundle.lag_seconds + (0 if bundle.backfill else 60)


def _mark(bundle: Bundle, item: Item | None) -> Mark:
    return read_marks([item] if item else []).of(bundle.name)


def _stored(summary: BundleSummary, place: int) -> set[int]:
    slots = set(range(summary.begin, summary.end, summary.interval_seconds))
    for run in summary.absent.get(place, ()):
        slots -= set(range(run.start, run.end, summary.interval_seconds))
    return slots


def _figures(slots: Mapping[int, int]) -> list[HourFigures]:
    hours: dict[int, list[int]] = defaultdict(list)
    for slot, count in sorted(slots.items()):
        hours[slot - slot % _HOUR].append(count)
    return [
        HourFigures(hour, len(counts), min(counts), max(counts), sum(counts), 0) for hour, counts in hours.items()
    ]


def _tick_name(bundle: Bundle, tick: Tick) -> str:
    return f"the tick {format_instant(tick.slot)} of {bundle.name}"
