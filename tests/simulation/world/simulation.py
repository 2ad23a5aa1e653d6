"""A seed's days on one machine: the daemon lives, dies and is started again until they are over.

plan (targets, faults) ─▶ simulation ─▶ process (a life of the daemon, on machine, network, disk) ─▶ oracle
                              └──▶ trace (what happened, to the byte)
"""

from __future__ import annotations

import gc
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from unittest.mock import patch

from kizami.core.blocking import LONGEST_PROBE_SECONDS
from kizami.core.config import BackupPlan, Config
from kizami.core.errors import KizamiError
from kizami.core.targets.target import Target
from kizami.local.alerts import watch
from kizami.local.alerts.outbox import OutgoingMessage
from kizami.local.copies.restore import restore_backup
from kizami.local.copies.rotation import backups_in, dated
from kizami.local.engine.options import Options
from kizami.local.engine.writer import HELD_LIMIT
from kizami.local.store.database import open_database, open_unchanged
from kizami.local.store.reader import Reader
from simulation.shrinking import fewest
from simulation.world.apis import SECRET, SECRET_NAME, Asked, Mood, SimulatedApis
from simulation.world.disk import SimulatedDisk
from simulation.world.machine import SimulatedClock
from simulation.world.old_files import make_old_file
from simulation.world.oracle import Oracle, Slot, Violation, read_records
from simulation.world.oracles.alerts import AlertOracle
from simulation.world.oracles.backups import BackupOracle
from simulation.world.people import People
from simulation.world.plan import Event, changed_targets, draw_events, draw_mood, draw_pace, draw_targets
from simulation.world.process import SimulatedProcess, Surroundings, Watchers
from simulation.world.receivers import NAMES, ReceiverMood, SimulatedReceivers, draw_alerts
from simulation.world.timeline import SECOND, Timeline
from simulation.world.trace import Trace, TraceHandler

# Six minutes before an hour, a day and a week of those since 1970 end, all of which are then sealed.
START = round(datetime(2025, 12, 3, 23, 54, tzinfo=UTC).timestamp()) * SECOND
_RESTART_SECONDS = 5
_CHECK_SECONDS = 600
_SETTLE_SECONDS = 90  # so long after a fault nobody asks how late it is
_STOP_SECONDS = 60
_COPIED_AT_ONCE = 8  # pages: as few, so that much happens while a small file is copied
_PID = 4711
_MEMORY = 2 * HELD_LIMIT  # results, plans, messages and requests in memory, at most


@dataclass(frozen=True, slots=True)
class Length:
    """How long a seed is lived: so many days with so many faults each, and a quiet time at the end."""

    days: float = 1.0
    faults_a_day: float = 60.0
    quiet_seconds: int = 3600
    many: int = 600  # targets, where there are many
    seal_seconds: float = 45.0  # how often old slots are sealed: more often than in production


@dataclass(frozen=True, slots=True)
class Report:
    """What a seed has come to."""

    seed: int
    target_days: float
    lives: int
    requests: int
    records: int
    faults: Counter[str]
    kinds: Counter[str]
    digest: str


class Simulation:
    """One seed; `run` raises Violation where a promise is broken."""

    def __init__(self, seed: int, length: Length, only: frozenset[int] | None = None) -> None:
        self._seed, self._length, self._only = seed, length, only
        chance = random.Random(seed)
        self._world, self._inside = random.Random(chance.getrandbits(64)), random.Random(chance.getrandbits(64))
        self._now = START
        self._timeline = Timeline(START, self._inside)
        self._disk = SimulatedDisk(random.Random(chance.getrandbits(64)))
        self._clock = SimulatedClock(lambda: self._timeline.now)
        self._apis = SimulatedApis(random.Random(chance.getrandbits(64)))
        self._receivers = SimulatedReceivers(random.Random(chance.getrandbits(64)), self._heard)
        self.trace = Trace(lambda: self._timeline.now, self._disk.root)
        self._oracle = Oracle(self._clock.milliseconds, self._is_well)
        self._alert_oracle = AlertOracle()
        self._backup_oracle = BackupOracle(self._oracle)
        self._people = People(self._around, lambda: self._config, self.trace)
        self._options = Options(seal_after_seconds=self._world.choice((60, 600, 3600)))
        self._config = Config()
        self._troubled_until = START
        self._unblocked: dict[str, int] = {}  # when each target that was blocked answered again
        self._faults: Counter[str] = Counter()
        self._lives = 0
        self._process: SimulatedProcess | None = None

    def run(self) -> Report:
        with self._surroundings():
            self._draw()
            events = self._events()
            self._begin()
            for number, event in enumerate(events):
                if self._only is None or number in self._only:
                    self._run_until(event.moment)
                    self._befall(event)
            self._run_until(START + round(self._length.days * 86_400) * SECOND)
            self._end_quietly()
            return self._report()

    def count_events(self) -> int:
        """How many faults the seed has."""
        with self._surroundings():
            self._draw()
            return len(self._events())

    def _draw(self) -> None:
        """The file of settings that it begins with."""
        targets = draw_targets(self._world, draw_pace(self._world, self._length.many))
        plan = BackupPlan(self._world.choice((300, 900, 3600)), self._world.choice((1, 2, 3)))
        self._config = Config(tuple(targets), None, plan, draw_alerts(self._world))
        # A look at many targets takes a while, and these are slow: nothing is missed if it is taken less often.
        self._alert_oracle.look_seconds = watch.LOOK_SECONDS = max(watch.LOOK_SECONDS, 0.6 * len(targets))
        watch._HELD_UP = timedelta(seconds=4 * watch.LOOK_SECONDS)

    def _begin(self) -> None:
        """Without a database, or on one of an earlier run; some are killed while they make it, or soon after."""
        if self._inside.random() < 0.4:
            self._oracle.adopt(make_old_file(self._disk.path, self._config.targets, START))
            self._disk.adopt()
        if self._inside.random() < 0.5:
            self._crash_in_write(self._inside, power=self._inside.random() < 0.5)
        self._start()

    def _events(self) -> list[Event]:
        return list(draw_events(self._world, START, self._length.days * 86_400, self._length.faults_a_day))

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        logger, before = logging.getLogger("kizami"), os.environ.get(SECRET_NAME)
        handler = TraceHandler(self.trace, self._logged)
        level, propagates = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        os.environ[SECRET_NAME] = SECRET
        self._disk.on_new = self._backup_oracle.opened
        gc.collect()
        gc.freeze()  # what was there before: each life of the daemon collects all that is not frozen
        try:
            with self._another_machine():
                yield
        finally:
            if self._process:
                self._process.kill()
            self._process = None
            self._disk.close()
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
            os.environ.pop(SECRET_NAME)
            if before is not None:
                os.environ[SECRET_NAME] = before

    @contextmanager
    def _another_machine(self) -> Iterator[None]:
        """What the daemon takes from the machine unasked, and what takes too long for a simulated hour."""
        with ExitStack() as stack:
            for name, value in {
                "gc.freeze": lambda: None,  # what a life of the daemon leaves is to be collected in the next one
                "os.fsync": self._disk.fsync,
                "os.getpid": lambda: _PID,  # it is in the names of files, and in what is said of them
                "kizami.local.copies.copying._STEP_PAGES": _COPIED_AT_ONCE,
                "kizami.local.engine.sealer._LOOK_SECONDS": self._length.seal_seconds,
                "kizami.local.alerts.watch.LOOK_SECONDS": watch.LOOK_SECONDS,  # to be put back, as the next one
                "kizami.local.alerts.watch._HELD_UP": watch._HELD_UP,
                "kizami.core.targets.target.LEAST_KEEP_SECONDS": 0,
                # Each verb asks it of all targets, and a person's machine does not run one every few minutes.
                "kizami.core.targets.target.Target.of_each_metric": cache(Target.of_each_metric),
            }.items():
                stack.enter_context(patch(name, value))
            yield

    # Lives of the process

    def _start(self) -> None:
        self._lives += 1
        self._timeline = Timeline(self._now, self._inside)
        self._trouble(0.0)
        watchers = Watchers(self._asked, self._answered, self._acknowledged)
        if self._disk.path.exists():
            with self._disk.undisturbed(), closing(open_unchanged(self._disk.path)) as connection:
                self._alert_oracle.begin_life(connection)
        self._process = SimulatedProcess(self._around(), watchers, self._config, self._options)

    def _around(self) -> Surroundings:
        machine = self._timeline, self._inside, self._disk, self._clock
        return Surroundings(*machine, self._apis, self._receivers)

    def _run_until(self, moment: int) -> None:
        """Let time go by, with a look at the store now and then; who has died meanwhile is started again."""
        while self._now < moment:
            until = min(moment, self._now - self._now % (_CHECK_SECONDS * SECOND) + _CHECK_SECONDS * SECOND)
            self._timeline.run(until)
            self._now = self._timeline.now
            if self._timeline.is_dead:
                self._after_crash()
            elif self._process and self._process.is_over:
                if not self._process.ended:
                    raise Violation("the daemon has ended, and has not said why")
                self._restart()
            else:
                self._now = max(self._now, until)
                self._look()

    def _look(self) -> None:
        self._oracle.note_keep(self._config.targets)
        if self._process and self._process.held > _MEMORY:
            raise Violation(f"the process holds {self._process.held} things in memory")
        if self._disk.is_full or self._disk.is_failing or not self._disk.path.exists():
            return
        self._backup_oracle.check(self._backups, anew=False)
        assert self._config.alerts is not None
        with closing(open_database(self._disk.path)) as connection:
            self._oracle.check_queue(connection, len(self._config.targets))
            is_well = self._timeline.now >= self._troubled_until
            self._alert_oracle.check(connection, self._config.alerts, self._clock.now(), is_well=is_well)

    @property
    def _backups(self) -> Path:
        return self._disk.directory / "backups"

    def _after_crash(self) -> None:
        """The machine is up again: what was acknowledged is there."""
        self._drop_process()
        self._disk.restart()
        self._oracle.note_keep(self._config.targets)
        self._oracle.check_records(self._disk.path)
        self._backup_oracle.check(self._backups, anew=True)
        if self._disk.holds(SECRET.encode()):
            raise Violation("a secret is on the disk")
        self._look()
        self._restart()

    def _restart(self) -> None:
        self.trace.add("over", self._process.ended if self._process else "crashed")
        self._drop_process()
        self._now += _RESTART_SECONDS * SECOND
        self._start()

    def _drop_process(self) -> None:
        if self._process:
            self._process.kill()
        self._process = None

    # What is seen of it

    def _is_well(self, host: str) -> bool:
        """Whether neither the machine nor this host has had any trouble for a while."""
        return self._timeline.now >= max(self._troubled_until, self._apis.troubled_until(host))

    def _trouble(self, seconds: float) -> None:
        until = self._timeline.now + round((seconds + _SETTLE_SECONDS) * SECOND)
        self._troubled_until = max(self._troubled_until, until)

    def _asked(self, asked: Asked, tag: object) -> None:
        self.trace.add("asked", asked.name, asked.slot)
        self._oracle.asked(asked, tag)

    def _answered(self, asked: Asked, value: int) -> None:
        self._oracle.answered(asked, value)

    def _heard(self, receiver: str, outgoing: OutgoingMessage, answered: bool) -> None:
        self.trace.add("heard", receiver, outgoing.message, outgoing.document["state"], answered)
        self._alert_oracle.heard(receiver, outgoing, answered)

    def _logged(self, line: str, said: dict[str, object]) -> None:
        self._oracle.logged(line, self._timeline.now)
        if said.get("event") == "backup.made" and not self._timeline.is_dead:  # else it died while it made it
            self._backup_oracle.told(Path(str(said["file"])).name)
        if said.get("event") == "target.unblocked":
            self._unblocked[str(said["metric"])] = self._timeline.now

    def _acknowledged(self, records: list) -> None:  # type: ignore[type-arg]
        for each in records:
            self.trace.add("stored", each.record.metric, each.record.slot, each.record.count, each.receives)
        self._oracle.acknowledged(records)

    # What befalls it

    def _befall(self, event: Event) -> None:
        self.trace.add("fault", event.fault.name, f"{event.seconds:.3f}")
        self._faults[event.fault.value] += 1
        getattr(self, f"_{event.fault.name.lower()}")(event)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        """After so long, if the process still lives; a new one begins with all of that over."""
        self._timeline.at(self._timeline.now + round(seconds * SECOND), call)

    def _mood(self, event: Event) -> None:
        host, mood = draw_mood(event.pick)
        self.trace.add("mood", host, mood.value)
        self._apis.set_mood(host, mood, self._timeline.now)
        if event.pick.random() < 0.8:
            self._later(event.seconds, lambda: self._apis.set_mood(host, Mood.WELL, self._timeline.now))

    def _kill(self, event: Event) -> None:
        self._disk.crash(power=False)
        self._timeline.kill()
        self._after_crash()

    def _power(self, event: Event) -> None:
        self._disk.crash(power=True)
        self._timeline.kill()
        self._after_crash()

    def _kill_in_write(self, event: Event) -> None:
        self._crash_in_write(event.pick, power=False)

    def _power_in_write(self, event: Event) -> None:
        self._crash_in_write(event.pick, power=True)

    def _crash_in_write(self, chance: random.Random, *, power: bool) -> None:
        left = chance.choice((chance.randrange(1, 60), chance.randrange(1, 600)))

        def count_down() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self._disk.on_write = lambda: None
                self._disk.crash(power=power)
                self._timeline.kill()

        self._disk.on_write = count_down

    def _stop(self, event: Event) -> None:
        if self._process:
            self._process.stop()

    def _full_disk(self, event: Event) -> None:
        self._disk.is_full = True
        self._trouble(event.seconds)
        self._later(event.seconds, self._heal_disk)

    def _failing_disk(self, event: Event) -> None:
        self._disk.is_failing = True
        self._trouble(event.seconds)
        self._later(event.seconds, self._heal_disk)

    def _heal_disk(self) -> None:
        self._disk.is_full = self._disk.is_failing = False
        self._disk.slow_seconds = 0.0

    def _slow_disk(self, event: Event) -> None:
        self._disk.slow_seconds = event.pick.choice((0.1, 1.0, 4.0))
        self._trouble(event.seconds)
        self._later(event.seconds, self._heal_disk)

    def _clock_jump(self, event: Event) -> None:
        by = event.pick.choice((-7200, -600, -30, -2, 2, 30, 600, 7200)) * (0.5 + event.pick.random())
        self.trace.add("clock", f"{by:.3f}")
        self._clock.turn(by)
        self._oracle.note_keep(self._config.targets)
        self._trouble(event.seconds)
        self._later(event.seconds, self._set_right)

    def _clock_drift(self, event: Event) -> None:
        self._clock.drift(event.pick.choice((-500, -50, 50, 500)))
        self._later(event.seconds, self._set_right)

    def _set_right(self) -> None:
        self._oracle.note_keep(self._config.targets)
        self._clock.set_right()
        self._trouble(30.0)

    def _stall(self, event: Event) -> None:
        """The process is stopped for a while, as by a debugger or a sleeping machine."""
        self._now = self._timeline.now = self._timeline.now + round(min(event.seconds, 900.0) * SECOND)
        self._trouble(30.0)

    def _reload(self, event: Event) -> None:
        self._config = replace(self._config, targets=tuple(changed_targets(self._config.targets, event.pick)))
        self._oracle.note_keep(self._config.targets)
        if self._process:
            self._process.reload(self._config)
        self._trouble(10.0)

    # What people do meanwhile

    def _pause(self, event: Event) -> None:
        self._people.pause(event)
        self._trouble(5.0)

    def _resume(self, event: Event) -> None:
        self._people.resume()
        self._trouble(5.0)

    def _backfill(self, event: Event) -> None:
        self._people.backfill()

    def _redrive(self, event: Event) -> None:
        self._people.redrive()

    def _purge(self, event: Event) -> None:
        self._people.purge()

    def _status(self, event: Event) -> None:
        self._people.status()

    def _copy(self, event: Event) -> None:
        self._people.back_up()

    def _reader(self, event: Event) -> None:
        self._people.read_for(lambda close: self._later(event.seconds, close))

    def _receiver(self, event: Event) -> None:
        name, mood = event.pick.choice(NAMES), event.pick.choice(list(ReceiverMood))
        self.trace.add("receiver", name, mood.value)
        self._receivers.set_mood(name, mood)
        self._later(event.seconds, lambda: self._receivers.set_mood(name, ReceiverMood.WELL))

    def _restore(self, event: Event) -> None:
        """The daemon is stopped, its newest backup put in place, and some are killed while that is done."""
        names = [name for _, name in dated(backups_in(self._backups))]
        if not names or not self._is_stopped():
            return
        file = self._backups / names[-1]
        with self._disk.undisturbed():
            before, held = read_records(self._disk.path), self._backup_oracle.read(file)
        is_crash = event.pick.random() < 0.5
        if is_crash:
            self._crash_in_write(event.pick, power=event.pick.random() < 0.5)
        outcome = None
        with suppress(KizamiError):
            outcome = restore_backup(file, self._disk.path, self._clock.now()).records
        if self._timeline.is_dead:
            self._drop_process()
            self._disk.restart()
        with self._disk.undisturbed():
            self._after_restore(before, held, outcome)
        self._restart()

    def _is_stopped(self) -> bool:
        """Have the daemon stop; whether it did, in time."""
        if not self._process or self._timeline.is_dead:
            return False
        self._process.stop()
        self._timeline.run(self._timeline.now + _STOP_SECONDS * SECOND)
        self._now = self._timeline.now
        return self._process.is_over and self._process.ended == "stopped" and not self._timeline.is_dead

    def _after_restore(self, before: dict[Slot, int], held: dict[Slot, int], outcome: int | None) -> None:
        """The file is the former one or that of the backup: the one that was told, if anything was."""
        found, is_dead = read_records(self._disk.path), self._timeline.is_dead
        self.trace.add("restored", outcome, found == held, is_dead)
        if found not in (before, held) or (found != (before if outcome is None else held) and not is_dead):
            raise Violation("a restore has left neither the former database nor the backup, or not what it told")
        if found == held:
            self._oracle.restored(found)
            with closing(open_database(self._disk.path)) as connection:
                self._alert_oracle.restored(connection)
            self._backup_oracle.restored()

    # The end

    def _end_quietly(self) -> None:
        """All is well from here on, and what was given up is asked for again: after a while all is there."""
        self._disk.on_write = lambda: None
        self._heal_disk()
        self._set_right()
        self._apis.make_well(self._timeline.now)
        self._receivers.make_well()
        enabled = tuple(target for target in self._config.targets if target.enabled)
        self._config = replace(self._config, targets=enabled)
        if self._process:
            self._process.reload(self._config)
        self._run_until(self._now + 30 * SECOND)
        for _ in range(2):
            self._people.resume()
            self._people.backfill()
            self._people.redrive()
            self._run_until(self._now + self._length.quiet_seconds * SECOND // 2)
        self._oracle.check_records(self._disk.path)
        self._oracle.check_whole(self._disk.path, self._config.targets, self._clock.now())
        self._backup_oracle.check(self._backups, anew=True)
        with closing(open_database(self._disk.path)) as connection:
            quick = self._length.quiet_seconds // 3
            slow = [each for each in enabled if each.interval_seconds > quick or self._is_unblocked_late(each)]
            names = [name for each in slow for name in each.metrics]
            self._alert_oracle.check_quiet(connection, names, self._clock.now())

    def _is_unblocked_late(self, target: Target) -> bool:
        """Ten minutes may lie between two probes, and nobody can hurry those of a target without a past.

        A quiet time that is shorter may end before one.
        """
        settled_seconds = 2 * _SETTLE_SECONDS
        if target.backfill or self._length.quiet_seconds > LONGEST_PROBE_SECONDS + settled_seconds:
            return False
        with Reader.opened(self._disk.path) as reader:
            is_blocked = target.name in reader.blocked()
        return is_blocked or self._now - self._unblocked.get(target.name, 0) < settled_seconds * SECOND

    def _report(self) -> Report:
        days = (self._now - START) / SECOND / 86_400
        return Report(
            self._seed,
            days * len(self._config.targets),
            self._lives,
            self._oracle.requests,
            self._oracle.size(),
            self._faults,
            self.trace.kinds,
            self.trace.digest(),
        )


def run_seed(seed: int, length: Length, only: frozenset[int] | None = None) -> Report:
    """Run it; a violation says how to see it again, and has the last lines of its trace."""
    simulation = Simulation(seed, length, only)
    try:
        return simulation.run()
    except (Violation, KizamiError) as error:  # also a file that the oracles cannot read
        last = "\n".join(list(simulation.trace.last)[-40:])
        raise Violation(f"{command(seed, length, only)}: {error}\n{last}") from error


def command(seed: int, length: Length, only: frozenset[int] | None) -> str:
    """What shows it again."""
    chosen = "" if only is None else f" ONLY={','.join(map(str, sorted(only))) or 'none'}"
    faults = f" FAULTS={length.faults_a_day:g} QUIET={length.quiet_seconds} MANY={length.many}"
    return f"make simulate SEED={seed} DAYS={length.days:g}{faults}{chosen}"


def shrink(seed: int, length: Length) -> frozenset[int]:
    """As few of a failing seed's faults as still make it fail."""
    return fewest(Simulation(seed, length).count_events(), lambda few: fails(seed, length, few))


def fails(seed: int, length: Length, only: frozenset[int] | None = None) -> bool:
    try:
        run_seed(seed, length, only)
    except Violation:
        return True
    return False
