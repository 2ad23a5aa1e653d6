"""`kizami cost`: the monthly bill on AWS, part by part, beside the estimate of the original design."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kizami.aws.costs.bill import Part, estimate, growth, services, total, total_after_free
from kizami.aws.costs.deployment import Deployment
from kizami.aws.costs.prices import PRICES_OF, SEED_ESTIMATE
from kizami.cli.options import config_option
from kizami.cli.terminal.printing import json_option, plural, print_json, say
from kizami.cli.terminal.tables import print_table
from kizami.core.slots import parse_duration, require_interval
from kizami.core.targets.target import Target
from kizami.platform.config_file import load_config

_COLUMNS = (
    ("service", False),
    ("part", False),
    ("a month", True),
    ("list price", True),
    ("after free tier", True),
    ("original design", True),
)


@click.command(short_help="Estimate the monthly bill on AWS.")
@click.option("--targets", type=click.IntRange(1, 1_000_000), help="So many targets, instead of those configured.")
@click.option("--interval", default="5s", show_default=True, help="How often each of --targets is polled.")
@click.option("--production", is_flag=True, help="With the parts that the production profile adds.")
@click.option("--nat-per-zone", is_flag=True, help="With nat_per_zone=true in the deployment's context.")
@click.option("--aggregation", is_flag=True, help="With the queue and the alarms of the aggregation.")
@click.option("--mock", type=click.Choice(["rest", "http"]), help="With the mock API, as mock_api in the context.")
@click.option(
    "--monitoring",
    type=click.Choice(["full", "minimal"]),
    default="full",
    show_default=True,
    help="As in the deployment's context.",
)
@click.option(
    "--capacity",
    type=click.Choice(["on_demand", "provisioned"]),
    default="on_demand",
    show_default=True,
    help="As in the deployment's context.",
)
@click.option("--warnings-only", is_flag=True, help="With log_level=warn in the deployment's context.")
@click.option(
    "--months", type=click.IntRange(1, 120), default=1, show_default=True, help="How long records have come in."
)
@click.option(
    "--keep",
    type=click.IntRange(1, 3650),
    metavar="DAYS",
    help="How long records are kept of targets that do not say so; else for ever.",
)
@json_option
@config_option
def command(
    targets: int | None,
    interval: str,
    production: bool,
    nat_per_zone: bool,
    aggregation: bool,
    mock: str | None,
    monitoring: str,
    capacity: str,
    warnings_only: bool,
    months: int,
    keep: int | None,
    as_json: bool,
    config: Path | None,
) -> None:
    """Estimate what a month on AWS costs, at list prices, part by part.

    Without --targets and without a kizami.toml it is one target, the mock API, every 5 seconds. The last column
    is the estimate of the original design, from which kizami was made, for that one target.
    """
    if nat_per_zone and not production:
        raise click.UsageError("--nat-per-zone needs --production, which adds the network.")
    polled = _what_is_polled(targets, interval, mock, config)
    deployment = Deployment(
        polled.intervals,
        mock=polled.mock,
        configured=polled.configured,
        production=production,
        nat_per_zone=nat_per_zone,
        aggregation=aggregation,
        monitoring=monitoring,
        capacity=capacity,
        log_level="warn" if warnings_only else "info",
        secrets=polled.secrets,
        months=months,
        keeps=[keep if days is None else days for days in polled.keeps],
    )
    parts = estimate(deployment)
    if as_json:
        print_json(_document(parts, deployment))
    else:
        print_table(_COLUMNS, _rows(parts))
    _say_what_it_is_of(deployment)


@dataclass(frozen=True, slots=True)
class _Polled:
    intervals: list[int]
    mock: str | None
    keeps: list[float | None]
    secrets: int = 0
    configured: bool = False


def _what_is_polled(targets: int | None, interval: str, mock: str | None, config: Path | None) -> _Polled:
    if targets is not None:
        return _Polled(
            [require_interval(parse_duration(interval, "--interval"))] * targets, mock, [None] * targets
        )
    if click.get_current_context().get_parameter_source("interval") is not click.core.ParameterSource.DEFAULT:
        raise click.UsageError("--interval needs --targets; without it kizami.toml says how often each is polled.")
    settings = load_config(config)
    enabled = settings.config.enabled_targets
    if settings.path is None:
        mock = mock or "rest"
    elif mock is not None:
        raise click.UsageError(
            f"--mock: the mock API is not deployed with a configuration ({settings.path}); leave it out,"
            " or say --targets 1."
        )
    metrics = [target for target in enabled for _ in target.metrics]
    keeps = [None if each.keep_seconds is None else each.keep_seconds / 86_400 for each in metrics]
    intervals = [target.interval_seconds for target in metrics]
    return _Polled(intervals, mock, keeps, _secrets(enabled), configured=settings.path is not None)


def _secrets(targets: Iterable[Target]) -> int:
    """How many of Secrets Manager's they refer to; those of the SSM Parameter Store cost nothing."""
    found = {reference for target in targets for _, reference in target.references()}
    return sum(reference.kind == "secretsmanager" for reference in found)


def _say_what_it_is_of(deployment: Deployment) -> None:
    mock = " (the mock API)" if deployment.mock else ""
    count = plural(len(deployment.intervals), "target")
    say(f"{count}{mock}; list prices of {PRICES_OF}, US East, before taxes")
    gigabytes, dollars = growth(deployment)
    if gigabytes > 0:
        say(f"what is kept grows by {gigabytes:,.3g} GB and {_dollars(dollars)} with each month; --keep ends that")


def _rows(parts: Sequence[Part]) -> list[list[str]]:
    running = [part for part in parts if not part.apart]
    rows = [*_rows_of(running), ["total", "", "", *_prices(running), ""]]
    apart = [part for part in parts if part.apart]
    every = _dollars(sum(SEED_ESTIMATE.values()))
    return [*rows, *_rows_of(apart), ["total", "with what stands apart", "", *_prices(parts), every]]


def _rows_of(parts: Sequence[Part]) -> list[list[str]]:
    rows = []
    for service in services(parts):
        members = [part for part in parts if part.service == service]
        rows += [[service, part.what, _quantity(part.quantity), *_prices([part]), ""] for part in members]
        rows.append([service, "together", "", *_prices(members), _dollars(SEED_ESTIMATE.get(service))])
    return rows


def _prices(parts: Sequence[Part]) -> list[str]:
    return [_dollars(total(parts)), _dollars(total_after_free(parts))]


def _dollars(amount: float | None) -> str:
    return "-" if amount is None else f"${amount:,.2f}"


def _quantity(quantity: float) -> str:
    return f"{quantity:,.0f}" if quantity >= 100 else f"{quantity:.3g}"


def _document(parts: Sequence[Part], deployment: Deployment) -> dict[str, Any]:
    running = [part for part in parts if not part.apart]
    gigabytes, dollars = growth(deployment)
    return {
        "targets": len(deployment.intervals),
        "prices": PRICES_OF,
        "parts": [_part(part) for part in parts],
        "dollars": round(total(running), 2),
        "dollarsAfterFreeTier": round(total_after_free(running), 2),
        "dollarsWithApart": round(total(parts), 2),
        "dollarsWithApartAfterFreeTier": round(total_after_free(parts), 2),
        "growthAMonth": {"gigabytes": round(gigabytes, 3), "dollars": round(dollars, 2)},
        "originalEstimate": {**SEED_ESTIMATE, "total": round(sum(SEED_ESTIMATE.values()), 2)},
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "service": part.service,
        "part": part.what,
        "apart": part.apart,
        "quantity": round(part.quantity, 3),
        "price": {
            "dollars": part.price.dollars,
            "per": part.price.per,
            "free": part.price.free,
            "of": part.price.of,
        },
        "dollars": round(part.dollars, 4),
        "dollarsAfterFreeTier": round(part.dollars_after_free, 4),
    }
