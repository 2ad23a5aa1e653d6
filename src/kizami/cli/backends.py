"""Where the verbs and the page find their backend: `--backend local` or `aws`, and what opens it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import tzinfo
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kizami.backend.port import Backend
from kizami.cli.options import config_option, database_option
from kizami.cli.terminal.printing import say
from kizami.core.errors import ConfigurationError
from kizami.core.targets.target import Target
from kizami.platform.clock import SystemClock
from kizami.platform.config_file import DEFAULT_CONFIG, DEFAULT_DATABASE, LoadedConfig, load_config
from kizami.platform.config_watch import FollowedConfig

if TYPE_CHECKING:
    from kizami.aws.backend import AwsBackend
    from kizami.aws.places import FoundPlaces
    from kizami.local.backend import LocalBackend

OpenBackend = Callable[[], Backend]
PAGE = "page"  # who orders something there


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """Where the options say that the data is: one machine's database, or the stack on AWS."""

    config: Path | None = None
    database: Path = DEFAULT_DATABASE
    backend: str = "local"
    table: str | None = None
    stack: str | None = None

    def opened(self, *, quiet: bool = False) -> AbstractContextManager[Backend]:
        """Open the backend for a verb; warn if a running daemon polls something else."""
        if self.backend == "aws":
            return closing(_aws_backend(self))
        settings = load_config(self.config)
        backend = local_opener(self.database, FollowedConfig(settings), actor=_actor())()
        if not quiet:
            say_difference(self.database, settings)
        return closing(backend)

    def opener(self) -> tuple[OpenBackend, float | None]:
        """What opens the backend for a page, and how often an open page looks at it, if not as often as usual."""
        if self.backend == "aws":
            from kizami.aws.known_targets import LOOK_SECONDS

            backend = _aws_backend_of_page(self)
            return lambda: backend, LOOK_SECONDS
        settings = load_config(self.config)
        say_difference(self.database, settings)
        return local_opener(self.database, FollowedConfig(settings), batch_zone(), PAGE), None

    @property
    def places(self) -> FoundPlaces:
        """Where the parts of the stack are."""
        require_aws_packages()
        from kizami.aws.places import FoundPlaces

        return FoundPlaces(self.table, self.stack)


def local_opener(
    database: Path, configured: Callable[[], LoadedConfig], zone: tzinfo | None = None, actor: str = ""
) -> Callable[[], LocalBackend]:
    """What opens the backend of a database; `configured` is asked again and again, for the file may change.

    What is ordered there is kept as done by `actor`.
    """
    from kizami.cli.engine_options import options_of_environment
    from kizami.local.backend import LocalBackend

    settings = configured()
    options = {} if database == DEFAULT_DATABASE else {"--database": str(database)}
    if settings.path not in (None, DEFAULT_CONFIG):
        options["--config"] = str(settings.path)
    return lambda: LocalBackend(
        database, configured, options, zone=zone, limits=options_of_environment, actor=actor
    )


def say_difference(database: Path, settings: LoadedConfig) -> str | None:
    """What `find_difference` finds, also on stderr."""
    told = find_difference(database, settings)
    if told:
        say(f"warning: {told}")
    return told


def find_difference(database: Path, settings: LoadedConfig) -> str | None:
    """One line if the daemon that runs on the database polls something else than is set here."""
    from kizami.local.daemon_lock import find_daemon
    from kizami.local.running_config import difference

    return difference(find_daemon(database), settings)


def _actor() -> str:
    """Who orders something by a verb: the verb and the user."""
    context = click.get_current_context(silent=True)
    return f"{context.command_path if context else 'kizami'} ({user_name()})"


def user_name() -> str:
    """Who calls."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return "somebody"


def batch_zone() -> tzinfo:
    """The zone of the aggregation batch's days, where no configuration says it."""
    from kizami.aggregation.points import DEFAULT_ZONE, require_zone  # only a page needs it

    return require_zone(os.environ.get("AGGREGATION_TZ") or DEFAULT_ZONE, "AGGREGATION_TZ")


def require_aws_packages() -> None:
    """What only the backend on AWS needs, else ConfigurationError."""
    if find_spec("botocore") is None:
        raise ConfigurationError(
            "--backend aws", "needs botocore, which is not installed; pip install 'kizami[aws]'"
        )


def _aws_backend(options: BackendOptions) -> AwsBackend:
    """For a verb: it looks up what it needs, and keeps nothing."""
    places = options.places
    from kizami.aws.backend import AwsBackend
    from kizami.aws.reconciler import read_policy

    grace_seconds = read_policy(os.environ).grace_seconds
    return AwsBackend(places, _deployed_targets(options), SystemClock(), grace_seconds, keeps=False)


def _aws_backend_of_page(options: BackendOptions) -> AwsBackend:
    """For a page: one for all its threads; ConfigurationError where its parts cannot be found."""
    places = options.places
    from kizami.aggregation.stores.company_states import CompanyTables
    from kizami.aws.backend import AwsBackend
    from kizami.aws.reconciler import read_policy

    tables = places.company_tables
    return AwsBackend(
        places,
        _deployed_targets(options),
        SystemClock(),
        read_policy(os.environ).grace_seconds,
        _command_options(options),
        CompanyTables(*tables, batch_zone()) if tables else None,
    )


def _deployed_targets(options: BackendOptions) -> Sequence[Target]:
    """The targets of the file, else that of the seeds."""
    from kizami.aws.settings import configured_targets

    settings = load_config(options.config)
    seeds = {name: value for name, value in os.environ.items() if name != "KIZAMI_CONFIG"}
    return (settings.config if settings.path else configured_targets(seeds)).targets


def _command_options(options: BackendOptions) -> dict[str, str]:
    """What leads the other verbs to the same stack, as far as it was said here."""
    said = {
        "--backend": "aws",
        "--config": options.config,
        "--table": options.table,
        "--stack": options.stack,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def backend_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options that say where the data is, and its function one `backend_options`."""

    @click.option(
        "--backend",
        type=click.Choice(["local", "aws"]),
        default="local",
        envvar="KIZAMI_BACKEND",
        show_default=True,
        show_envvar=True,
        help="Where the data is: on this machine or on AWS.",
    )
    @config_option
    @database_option
    @click.option("--table", envvar="AI_METRICS_TABLE_NAME", show_envvar=True, help="On AWS: the metrics table.")
    @click.option("--stack", envvar="KIZAMI_STACK", show_envvar=True, help="On AWS: the stack to ask for more.")
    @wraps(verb)
    def with_backend_options(
        *arguments: Any,
        backend: str,
        config: Path | None,
        database: Path,
        table: str | None,
        stack: str | None,
        **options: Any,
    ) -> Any:
        backend_options = BackendOptions(config, database, backend, table, stack)
        return verb(*arguments, backend_options=backend_options, **options)

    return with_backend_options
