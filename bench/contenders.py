"""Who is measured: how each is started, when it planned to ask, and what it stored."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from bench.layout import NAMED, Layout, is_healthy
from bench.name_server import with_names
from kizami.core.slots import parse_instant
from kizami.core.targets.target import Target
from kizami.local.engine.active_targets import offset_ms
from kizami.local.store.reader import Reader

INTERVAL_MS = 5000
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as the server saw it; `slot` is empty for scrapers, which cannot ask for a window."""

    target: str
    slot: str
    moment_ms: float


@dataclass
class Contender:
    """A program that polls `count` targets of the layout every five seconds."""

    directory: Path
    layout: Layout
    count: int
    certificate: Path | None = None
    name: str = ""
    process: subprocess.Popen[str] = field(init=False)

    @staticmethod
    def installed() -> bool:
        return True

    def start(self) -> None:
        raise NotImplementedError

    def lateness_ms(self, arrivals: Iterable[Arrival]) -> list[float]:
        """Each arrival against the moment it was planned for."""
        raise NotImplementedError

    def stored(self, since_ms: float, until_ms: float) -> int | None:
        """How many polls of healthy targets planned in that time are stored, if it can tell."""
        return None

    def run(self, *command: str | Path) -> None:
        parts = [str(part) for part in command]
        trusted = {"SSL_CERT_FILE": str(self.certificate)} if self.certificate else {}
        with (self.directory / "log").open("w") as log:
            self.process = subprocess.Popen(
                with_names(parts, self.directory) if self.layout.kind in NAMED else parts,
                cwd=self.directory,
                env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | trusted,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )


class Kizami(Contender):
    """`kizami up` as a poller alone, without dashboard and printed rows."""

    settings = ""  # of each target, besides where it is

    def start(self) -> None:
        self.name = "kizami"
        self.write_configuration()
        self.run(sys.executable, "-m", "kizami.cli.main", "up", "--no-rows", "--no-dashboard")

    def write_configuration(self) -> None:
        tables = (
            f'[[targets]]\nname = "t{n}"\nurl = "{origin}"\n'
            f'path = "/t{n}?from={{from}}&to={{to}}"\n{self.settings}'
            for n, origin in enumerate(map(self.layout.origin, range(self.count)))
        )
        (self.directory / "kizami.toml").write_text("\n".join(tables))

    def lateness_ms(self, arrivals: Iterable[Arrival]) -> list[float]:
        offsets = self._offsets()
        return [each.moment_ms - self._planned_ms(each.slot, offsets[each.target]) for each in arrivals]

    def stored(self, since_ms: float, until_ms: float) -> int | None:
        connection = apsw.Connection(str(self.directory / "kizami.db"), flags=apsw.SQLITE_OPEN_READONLY)
        offsets = self._healthy_offsets()
        connection.create_scalar_function(
            "offset", lambda *number: offsets.get(int(str(number[0]))), 1, deterministic=True
        )
        sql = "SELECT count(*) FROM slots WHERE (slot + 5) * 1000 + offset(metric_id) BETWEEN ? AND ?"
        return int(connection.execute(sql, (since_ms, until_ms)).get)

    def _offsets(self) -> dict[str, int]:
        with Reader.opened(self.directory / "kizami.db") as reader:
            known = reader.metrics()
        return {name: offset_ms(_pace(), metric.id) for name, metric in known.items()}

    def _healthy_offsets(self) -> dict[int, int]:
        with Reader.opened(self.directory / "kizami.db") as reader:
            healthy = [metric.id for name, metric in reader.metrics().items() if is_healthy(name)]
        return {number: offset_ms(_pace(), number) for number in healthy}

    @staticmethod
    def _planned_ms(slot: str, offset: int) -> float:
        return parse_instant(slot).timestamp() * 1000 + INTERVAL_MS + offset


class Naive(Contender):
    """asyncio + aiohttp + sqlite3."""

    def start(self) -> None:
        self.name = "aiohttp loop"
        script = Path(__file__).with_name("naive.py")
        origins = self.directory / "origins"
        origins.write_text("\n".join(map(self.layout.origin, range(self.count))))
        self.run(sys.executable, script, origins, self.directory / "naive.db")
        assert self.process.stdout
        self._start_ms = float(self.process.stdout.readline())

    def lateness_ms(self, arrivals: Iterable[Arrival]) -> list[float]:
        made: dict[str, int] = defaultdict(int)
        late = []
        for each in arrivals:
            first = self._start_ms + int(each.target[1:]) * INTERVAL_MS / self.count
            late.append(each.moment_ms - first - made[each.target] * INTERVAL_MS)
            made[each.target] += 1
        return late

    def stored(self, since_ms: float, until_ms: float) -> int | None:
        connection = sqlite3.connect(self.directory / "naive.db")
        # A row's slot is that of its tick less one interval; the tick within the interval is the target's own.
        sql = """
        SELECT count(*) FROM points
        WHERE :start + target * 5000.0 / :count
              + round((slot * 1000.0 + 5000 - :start - target * 5000.0 / :count) / 5000 + 0.4999) * 5000
              BETWEEN :since AND :until
        """
        bounds = {"start": self._start_ms, "count": self.count, "since": since_ms, "until": until_ms}
        return int(connection.execute(sql, bounds).fetchone()[0])


class Scraper(Contender):
    """A program that scrapes text; it spreads targets by a rule of its own, so its plan is read off its polls."""

    def lateness_ms(self, arrivals: Iterable[Arrival]) -> list[float]:
        by_target: dict[str, list[float]] = defaultdict(list)
        for each in arrivals:
            by_target[each.target].append(each.moment_ms)
        late = []
        for moments in by_target.values():
            rounds = [round((moment - moments[0]) / INTERVAL_MS) for moment in moments]
            phase = min(moment - n * INTERVAL_MS for moment, n in zip(moments, rounds, strict=True))
            late += [moment - n * INTERVAL_MS - phase for moment, n in zip(moments, rounds, strict=True)]
        return late

    def write_config(self) -> Path:
        scheme = f"  scheme: https\n  tls_config: {{ca_file: {self.certificate}}}\n" if self.certificate else ""
        jobs = [
            f"- job_name: t{n}\n  metrics_path: /metrics/t{n}\n{scheme}"
            f"  static_configs: [{{targets: ['{self.layout.origin(n).partition('://')[2]}']}}]"
            for n in range(self.count)
        ]
        path = self.directory / "scrape.yml"
        path.write_text("global: {scrape_interval: 5s}\nscrape_configs:\n" + "\n".join(jobs) + "\n")
        return path


class Prometheus(Scraper):
    @staticmethod
    def installed() -> bool:
        return shutil.which("prometheus") is not None

    def start(self) -> None:
        self.name = "Prometheus"
        self.run(
            "prometheus",
            f"--config.file={self.write_config()}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        )


class VictoriaMetrics(Scraper):
    @staticmethod
    def installed() -> bool:
        return shutil.which("victoria-metrics") is not None

    def start(self) -> None:
        self.name = "VictoriaMetrics"
        self.run(
            "victoria-metrics",
            f"-promscrape.config={self.write_config()}",
            f"-storageDataPath={self.directory / 'data'}",
            "-httpListenAddr=127.0.0.1:0",
        )


def _pace() -> Target:
    return Target(interval_seconds=5, lag_seconds=5)


CONTENDERS: tuple[type[Contender], ...] = (Kizami, Naive, Prometheus, VictoriaMetrics)
