"""The zone that a verb shows times in and reads them in: `--tz`, else `KIZAMI_TZ`, else UTC."""

from __future__ import annotations

from datetime import UTC, tzinfo

import click
from click.core import ParameterSource

from kizami.backend.times.asked import Moment, RangeNames
from kizami.backend.times.zones import read_zone
from kizami.cli.options import Decorator
from kizami.platform.clock import SystemClock

_KEY = "kizami.zone"
_NAMES = RangeNames("--from", "--to", "--last", "--tz")


def _remember(context: click.Context, option: click.Parameter, name: str | None) -> None:
    source = context.get_parameter_source(option.name or "")
    field = "KIZAMI_TZ" if source is ParameterSource.ENVIRONMENT else "--tz"
    context.meta[_KEY] = read_zone(name, field) if name is not None else None


tz_option: Decorator = click.option(
    "--tz",
    metavar="ZONE",
    envvar="KIZAMI_TZ",
    show_envvar=True,
    callback=_remember,
    expose_value=False,
    help="Show and read times in this zone, such as Asia/Tokyo; default: UTC.",
)


def asked_zone() -> tzinfo | None:
    """The zone that this run was asked to use, if any."""
    context = click.get_current_context(silent=True)
    zone: tzinfo | None = context.meta.get(_KEY) if context else None
    return zone


def shown_zone() -> tzinfo:
    """The zone that times are shown in."""
    return asked_zone() or UTC


def asked_moment() -> Moment:
    """Now, and the zone in which the user writes times."""
    return Moment(SystemClock().now(), asked_zone(), _NAMES)
