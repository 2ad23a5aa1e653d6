"""How late polls are while pages are open: `kizami up`, whose dashboard is a thread of the same process."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path

from bench.contenders import Arrival, Kizami
from bench.layout import is_healthy
from bench.page.measures import listening
from bench.run import WARM_UP_SECONDS, Servers

_SERVED = re.compile(r'the dashboard is served.*(http://[^\s"]+)')


class KizamiWithPages(Kizami):
    """`kizami up` as it is started by people."""

    def start(self) -> None:
        self.write_configuration()
        self.run(sys.executable, "-m", "kizami.cli.main", "up", "--no-rows", "--dashboard-port", "0")

    def url(self) -> str:
        """Where its dashboard is, once it has told."""
        while not (told := _SERVED.search((self.directory / "log").read_text())):
            if self.process.poll() is not None:
                raise SystemExit((self.directory / "log").read_text())
            time.sleep(0.1)
        return told[1]


def lateness_by_pages(directory: Path, count: int, pages: int, seconds: float) -> dict[int, list[float]]:
    """How late each poll of healthy targets arrived, ascending in ms: without a page, and with so many open.

    From the moment that it was planned for to its arrival at a server of this machine. The database is new, so a
    page looks at minutes and not at days.
    """
    servers = Servers(directory, "own", count)
    kizami = KizamiWithPages(directory, servers.layout, count)
    kizami.start()
    windows = {}
    try:
        url = kizami.url()
        time.sleep(WARM_UP_SECONDS)
        windows[0] = _wait(seconds)
        with listening(url, pages):
            windows[pages] = _wait(seconds)
    finally:
        kizami.process.send_signal(signal.SIGTERM)
        kizami.process.wait()
        arrivals = [each for each in servers.stop() if is_healthy(each.target)]
    return {open_pages: _late(kizami, arrivals, window) for open_pages, window in windows.items()}


def _wait(seconds: float) -> tuple[float, float]:
    began = time.time()
    time.sleep(seconds)
    return began * 1000, time.time() * 1000


def _late(kizami: Kizami, arrivals: list[Arrival], window: tuple[float, float]) -> list[float]:
    since, until = window
    within = [each for each in arrivals if since <= each.moment_ms < until]
    return sorted(kizami.lateness_ms(within))
