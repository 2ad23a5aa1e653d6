"""`kizami up`: the whole pipeline on this machine, until Ctrl-C."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click

from kizami.aggregation.scheduled_runs import ScheduledAggregation
from kizami.cli.backends import PAGE, batch_zone, local_opener
from kizami.cli.backup_options import BackupFlags, backup_options
from kizami.cli.early_signals import EARLY_SIGNALS
from kizami.cli.engine_options import limit_options
from kizami.cli.exit_codes import INTERRUPTED, OK
from kizami.cli.options import config_option, database_option
from kizami.cli.page_options import OpenAccess, page_options
from kizami.cli.shown_zone import shown_zone, tz_option
from kizami.cli.terminal.colours import is_terminal
from kizami.cli.terminal.run_summary import run_summary
from kizami.cli.terminal.unblocked_output import unblock_stderr
from kizami.core.config import Config
from kizami.core.errors import ConfigurationError, StoreError
from kizami.core.logs import use_logs
from kizami.core.targets.target import MOCK_API_URL, Target
from kizami.local.alerts.watch import AlertWatch
from kizami.local.copies.scheduled_backups import ScheduledBackups
from kizami.local.daemon_lock import UP, DaemonLock, sole_daemon
from kizami.local.engine.loop import Engine
from kizami.local.engine.options import Options
from kizami.local.engine.writer import when_unlocked
from kizami.local.running_config import running_config
from kizami.local.store.database import is_locked, require_intact
from kizami.local.store.pauses import PauseWatch
from kizami.mock_api.service import MockService, is_needed, mock_service
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import load_config
from kizami.platform.config_watch import ConfigWatch
from kizami.web import DEFAULT_HOST, DEFAULT_PORT

_WARNINGS = 5
_SWITCH_SECONDS = 0.001  # the loop must not wait five milliseconds for a thread that computes

logger = logging.getLogger(__name__)


@click.command(short_help="Run the whole pipeline on this machine.")
@config_option
@database_option
@click.option("--mock/--no-mock", default=None, help="Serve the mock API too; by default if a target asks it.")
@click.option("--rows/--no-rows", default=True, help="Print stored rows (JSON lines) if stdout is no terminal.")
@click.option("--dashboard/--no-dashboard", default=True, help="Serve the dashboard.")
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    envvar="KIZAMI_DASHBOARD_PORT",
    show_envvar=True,
    help=f"Its port; 0 lets the system choose.  [default: {DEFAULT_PORT}]",
)
@click.option("--host", default=DEFAULT_HOST, show_default=True, help="The dashboard's address to listen on.")
@page_options
@click.option("--spread/--no-spread", default=True, help="Spread polls evenly over the interval.")
@tz_option
@backup_options
@limit_options
def command(
    config: Path | None,
    database: Path,
    mock: bool | None,
    rows: bool,
    dashboard: bool,
    dashboard_port: int | None,
    host: str,
    access: OpenAccess,
    backups: BackupFlags,
    **options: Any,
) -> int:
    """Poll the targets of kizami.toml and keep one record for every slot in one SQLite file.

    Without a file it polls the mock API, which it serves on port 3000, until there is a ./kizami.toml. What was
    missed while it did not run is caught up with. Ctrl-C stops it; SIGHUP, or saving the file, makes it read the
    file again.
    """
    if _is_told_to_end():
        return _ending_code(EARLY_SIGNALS)
    unblock_stderr()
    use_logs()
    settings = load_config(config)
    targets = settings.config.enabled_targets
    try:
        with ExitStack() as stack:
            lock = stack.enter_context(sole_daemon(database, UP))
            when_unlocked(lambda: require_intact(database), database, _is_told_to_end)
            if mock or (mock is None and is_needed(settings.config)):
                _serve_mock(stack)
            _warn_of_early_asking(targets)
            watch = ConfigWatch(settings)
            if dashboard:
                _serve_dashboard(stack, database, watch, PagePlace(host, dashboard_port, access))
            alerts = _watch(stack, database, watch)
            use_beside = _run_beside(stack, database, backups, alerts)
            following = Following(watch, lock, use_beside)
            return _run(stack, following, database, Options(**options), rows, alerts)
    except StoreError as error:
        if not (_is_told_to_end() and is_locked(error)):
            raise
        return _ending_code(EARLY_SIGNALS)  # told to end while the start waited for another program


class Following:
    """What goes by the configuration besides the polls; called on the thread that reads it."""

    def __init__(self, watch: ConfigWatch, lock: DaemonLock, use_beside: Callable[[Config], None]) -> None:
        self.watch = watch
        self._lock = lock
        self._use_beside = use_beside
        self._keep: Callable[[Config], None] = lambda config: None

    def begin(self) -> None:
        """Go by the configuration of the start."""
        self._use_beside(self.watch.in_force.config)
        self._tell()

    def pausing(self, pauses: PauseWatch) -> Callable[[], Config | None]:
        """What the engine asks for news."""
        self._keep = pauses.keep

        def new_config() -> Config | None:
            config = pauses.new_config()
            self._tell()
            return config

        return new_config

    def settled(self, refusal: str | None) -> None:
        """The last news is in force, or refused."""
        if refusal is None:
            self.watch.accept()
            self._use_beside(self.watch.in_force.config)
        else:
            self.watch.refuse(refusal)
            self._keep(self.watch.in_force.config)
        self._tell()

    def _tell(self) -> None:
        """Let the verbs and the page know what is polled."""
        self._lock.tell(running_config(self.watch))


def _watch(stack: ExitStack, database: Path, watch: ConfigWatch) -> AlertWatch:
    """Who looks for what is wrong, and keeps what happens, the end of the daemon included."""
    alerts = AlertWatch(database, local_opener(database, lambda: watch.in_force, batch_zone()), SystemClock())
    log = logging.getLogger("kizami")
    log.addHandler(alerts.events)
    stack.callback(alerts.close)
    stack.callback(log.removeHandler, alerts.events)
    return alerts


def _run_beside(
    stack: ExitStack, database: Path, flags: BackupFlags, alerts: AlertWatch
) -> Callable[[Config], None]:
    """What runs on schedule beside the polls, in threads of its own; it goes by each configuration it is given."""
    aggregation, backups = ScheduledAggregation(database, SystemClock()), ScheduledBackups(database, SystemClock())
    stack.callback(aggregation.close)
    stack.callback(backups.close)
    alerts.failed_companies = aggregation.failed

    def use(config: Config) -> None:
        alerts.use(config.alerts)
        aggregation.use(config.aggregation)
        backups.use(flags.plan(config.backup))

    return use


def _run(
    stack: ExitStack,
    following: Following,
    database: Path,
    options: Options,
    rows: bool,
    alerts: AlertWatch,
) -> int:
    watch = following.watch
    pauses = PauseWatch(database, watch.in_force.config, watch.new_config)
    stack.callback(pauses.close)
    sys.setswitchinterval(_SWITCH_SECONDS)
    new_config, settled = following.pausing(pauses), following.settled
    engine = when_unlocked(
        lambda: Engine(database, options, SystemClock(), new_config=new_config, settled=settled),
        database,
        _is_told_to_end,
    )
    stack.enter_context(run_summary(database, engine))
    noted = _obey_signals(engine, watch)
    if is_terminal(sys.stdout):
        from kizami.cli.terminal.live_view import LiveView

        engine.show = stack.enter_context(LiveView(database, engine, shown_zone())).show
    elif rows:
        from kizami.cli.terminal.record_lines import RecordLines

        engine.show = stack.enter_context(RecordLines(engine.stop)).show
    logger.info(
        "polling; Ctrl-C stops",
        extra={
            "event": "daemon.started",
            "targets": len(watch.in_force.config.enabled_targets),
            "database": str(database),
        },
    )
    logging.getLogger("kizami.aggregation.batch").setLevel(
        logging.ERROR
    )  # each user is a line; the outcome is told
    following.begin()
    alerts.unwritable = lambda: engine.unwritable
    alerts.start()
    engine.run(pauses.config)
    return _ending_code(noted)


def _is_told_to_end() -> bool:
    return signal.SIGINT in EARLY_SIGNALS or signal.SIGTERM in EARLY_SIGNALS


def _ending_code(noted: Sequence[int]) -> int:
    return INTERRUPTED if signal.SIGINT in noted else OK


def _obey_signals(engine: Engine, watch: ConfigWatch) -> list[int]:
    """Ctrl-C and SIGTERM stop the engine, SIGHUP has the file read again, also an early one; all are noted."""
    noted: list[int] = []

    def obey(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        if number == signal.SIGHUP:
            watch.ask()
        else:
            engine.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, obey)
    for early in EARLY_SIGNALS:
        obey(early, None)
    return noted


def _serve_mock(stack: ExitStack) -> None:
    logging.getLogger("kizami.mock_api").setLevel(logging.WARNING)  # each request is a stored row anyway
    if stack.enter_context(mock_service()) is MockService.ANOTHER:
        logger.info(
            "the mock API is running already; it is used", extra={"event": "mock.found", "url": MOCK_API_URL}
        )


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Where the dashboard is served, and to whom; without a port at the usual one, if that is free."""

    host: str
    port: int | None
    access: OpenAccess


def _serve_dashboard(stack: ExitStack, database: Path, watch: ConfigWatch, page: PagePlace) -> None:
    from kizami.web.server import DashboardServer

    open_backend = local_opener(database, lambda: watch.in_force, batch_zone(), PAGE)
    port = DEFAULT_PORT if page.port is None else page.port
    server = DashboardServer(open_backend, page.host, port, access=page.access(page.host))
    try:
        stack.enter_context(server)
    except ConfigurationError as error:
        # Who asked for a port wants it; else whatever has the usual one must not keep us from collecting.
        remedy = "choose another with --dashboard-port, or --no-dashboard"
        if page.port is not None or page.host != DEFAULT_HOST:
            raise ConfigurationError(error.place, f"the dashboard cannot listen there; {remedy}") from None
        logger.warning(
            "the dashboard is not served: its port is in use",
            extra={"event": "dashboard.refused", "remedy": remedy},
        )
        return
    logger.info("the dashboard is served", extra={"event": "dashboard.served", "url": server.url})


def _warn_of_early_asking(targets: Sequence[Target]) -> None:
    early = [target for target in targets if target.timing_problem]
    for target in early[:_WARNINGS]:
        logger.warning(
            "asked before its windows have ended: the counts kept are partial; set lag to the interval or more",
            extra={"event": "target.early", "metric": target.name, "lag_seconds": target.lag_seconds},
        )
    if len(early) > _WARNINGS:
        logger.warning(
            "more targets are asked too early", extra={"event": "targets.early", "targets": len(early) - _WARNINGS}
        )
