"""The options that verbs share, and where a verb finds its configuration: flags over environment over files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kizami.platform.config_file import DEFAULT_DATABASE

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


_FEW = 9  # more than that fill the line: the help lists them


class SuggestingGroup(click.Group):
    """A group whose unknown command is refused with the one that was probably meant, or with those there are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            from kizami.core.targets.unknown_names import near_names  # only a mistake needs it

            near = near_names(args[0], names) or ("" if len(names) > _FEW else "known: " + ", ".join(names))
            ctx.fail(f"No such command {args[0]!r}{near and '; ' + near}")
        return super().resolve_command(ctx, args)


config_option: Decorator = click.option(
    "--config",
    type=click.Path(path_type=Path, readable=False),  # whoever reads it says what is wrong: a configuration error
    envvar="KIZAMI_CONFIG",
    show_envvar=True,
    help="The targets; without it ./kizami.toml, and without that the mock API alone.",
)
database_option: Decorator = click.option(
    "--database",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="KIZAMI_DATABASE",
    show_envvar=True,
    default=DEFAULT_DATABASE,
    show_default=True,
    help="The SQLite file with queue and store.",
)


def listen_options(default_host: str, default_port: int) -> Decorator:
    """Give a verb that serves something the options that say where."""
    host = click.option("--host", default=default_host, show_default=True, help="The address to listen on.")
    port = click.option(
        "--port",
        default=default_port,
        show_default=True,
        type=click.IntRange(0, 65535),
        help="The port to listen on; 0 lets the system choose.",
    )
    return lambda verb: host(port(verb))
