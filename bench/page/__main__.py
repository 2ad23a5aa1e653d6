"""The page at thousands of targets, in a real browser: first byte, live, a click, bytes and work a minute.

    make bench-page                # 2,000 targets, days of history, a third in trouble; needs Chromium
    make bench-page PAGE=--aws     # 1,000 targets on AWS, its tables made up as they are asked for

One machine's database is served by `kizami dashboard` while a thread writes a fifth of the targets each second, as
a collector would. Whether pages delay polls is seen of `kizami up`, which polls as many targets on this machine
and has its dashboard in the same process. What is printed is a Markdown table.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import median

from bench.page.backend import answering_ids, build_backend, target_names, write_second
from bench.page.measures import (
    Dashboard,
    browsing,
    click_ms,
    first_byte_ms,
    main_thread_seconds,
    open_wall,
    pages_ratio,
    stream_bytes,
)
from bench.page.polls import lateness_by_pages

Row = tuple[str, str, str]
PAGES = 50


@contextmanager
def collecting(path: Path) -> Iterator[None]:
    """New records each second, until the block ends."""
    ids, stop = answering_ids(path), threading.Event()

    def run() -> None:
        while not stop.wait(1 - time.time() % 1):
            write_second(path, int(time.time()), ids)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measure(path: Path, count: int, seconds: float) -> Iterator[Row]:
    """The page over one machine's database."""
    with ExitStack() as resources:
        dashboard = Dashboard(["--database", str(path)], path.parent)
        resources.callback(dashboard.close)
        resources.enter_context(collecting(path))
        browser = resources.enter_context(browsing())
        time.sleep(8)
        bytes_ms = sorted(first_byte_ms(dashboard.url) for _ in range(9))
        yield "first byte of the wall, median", f"{bytes_ms[4]:.0f} ms", "150 ms"
        opened = [open_wall(browser, dashboard.url) for _ in range(5)]
        for other, _ in opened[:-1]:
            other.close()
        page = opened[-1][0]
        yield "live after, median", f"{median(live_ms for _, live_ms in opened):.0f} ms", "1,000 ms"
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        before = main_thread_seconds(session)
        page.wait_for_timeout(seconds * 1000)
        work = (main_thread_seconds(session) - before) * 60 / seconds
        yield "main thread a minute", f"{work:.2f} s", "1 s"
        yield "elements of rows", str(page.locator("#rows li").count()), "–"
        clicks = sorted(click_ms(page, dashboard.url, name) for name in target_names(count)[1:10])
        yield "a click shows the target's page, median", f"{clicks[4]:.0f} ms", "300 ms"
        page.close()
        total = stream_bytes(dashboard.url, seconds) * 60 / seconds
        yield "event stream a minute", f"{total / 1000:.0f} kB", "100 kB"
        yield f"{PAGES} pages, CPU in times of one", f"{pages_ratio(dashboard, PAGES, seconds):.2f}", "1.3"
        yield "memory of the server, at most", f"{dashboard.peak_mb:.0f} MB", "–"


def measure_polls(folder: Path, count: int, seconds: float) -> Iterator[Row]:
    """Whether open pages delay polls."""
    for pages, late in lateness_by_pages(folder, count, PAGES, seconds).items():
        p50, p99 = (late[int(len(late) * part)] for part in (0.5, 0.99))
        measured = f"{p50:.1f} / {p99:.1f} ms of {len(late):,}"
        yield f"lateness of polls with {pages} pages open, p50 / p99", measured, "as with 0"


def measure_aws(folder: Path, count: int, hours: float, seconds: float) -> Iterator[Row]:
    """The page over a stack: also how much it asks of DynamoDB."""
    from bench.page.aws import deployed

    with ExitStack() as resources:
        stack = resources.enter_context(deployed(count, hours, folder))
        dashboard = Dashboard(["--backend", "aws"], folder, stack.environment)
        resources.callback(dashboard.close)
        browser = resources.enter_context(browsing())

        def asked() -> str:
            requests, answered = stack.asked()
            return f"{requests:,} requests, {answered / 1e6:.1f} MB"

        yield "asked of DynamoDB before there is a page", asked(), "–"
        yield "first byte of the first page", f"{first_byte_ms(dashboard.url) / 1000:.1f} s", "3 s"
        yield "asked of DynamoDB for it", asked(), "–"
        yield "CPU of the server until then", f"{dashboard.cpu_seconds:.1f} s", "–"
        page, live_ms = open_wall(browser, dashboard.url)
        yield "live after", f"{live_ms:.0f} ms", "3,000 ms"
        page.goto(f"{dashboard.url}/?condition=collecting")
        page.locator("#rows .spark .line[d^=M]").first.wait_for()
        yield "asked until its rows have their lines", asked(), "–"
        time.sleep(5)
        asked()
        began = dashboard.cpu_seconds
        page.wait_for_timeout(seconds * 1000)
        yield f"asked while it is open for {seconds:.0f} s", asked(), "–"
        yield "CPU of the server meanwhile", f"{dashboard.cpu_seconds - began:.1f} s", "–"
        clicks = sorted(click_ms(page, dashboard.url, name) for name in target_names(count)[20:70:10])
        yield "a click shows the target's page, median", f"{clicks[2]:.0f} ms", "–"
        asked()
        began = time.perf_counter()
        page.goto(f"{dashboard.url}/calendar")
        page.locator("#calendar-body .cell[data-kind]:not([data-kind=loading])").first.wait_for()
        yield "the calendar of all targets counts its first day", f"{time.perf_counter() - began:.1f} s", "–"
        yield "asked for it", asked(), "–"
        yield "memory of the server, at most", f"{dashboard.peak_mb:.0f} MB", "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aws", action="store_true", help="over AWS instead of one machine's database")
    parser.add_argument("--targets", type=int, help="2,000, or 1,000 over AWS")
    parser.add_argument("--hours", type=float, help="3 as rows, or 26 of the ledger")
    parser.add_argument("--days", type=float, default=3.0, help="sealed before them")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    count, hours = options.targets or (1000 if options.aws else 2000), options.hours or (26 if options.aws else 3)
    with tempfile.TemporaryDirectory(prefix="kizami-bench-page-") as folder:
        if options.aws:
            print(f"{count:,} targets over AWS, {hours:g} h\n")
            rows = measure_aws(Path(folder), count, hours, options.seconds)
        else:
            path = Path(folder) / "kizami.db"
            build_backend(path, count, hours, options.days, datetime.now(UTC))
            size = path.stat().st_size / 1e6
            print(f"{count:,} targets, {options.days:g} days sealed and {hours:g} h as rows: {size:,.0f} MB\n")
            polls = Path(folder) / "polls"
            polls.mkdir()
            rows = chain(measure(path, count, options.seconds), measure_polls(polls, count, options.seconds))
        print("| | measured | at most |\n| --- | --- | --- |")
        for row in rows:
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
