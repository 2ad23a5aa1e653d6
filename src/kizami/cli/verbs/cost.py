"""`kizami cost`: the monthly bill on AWS, part by part, beside the estimate of the original design."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kizami.aws.costs import PRICES_OF, SEED_ESTIMATE, Deployment, Part, estimate, services
from kizami.cli.options import config_option
from kizami.cli.terminal.printing import json_option, plural, print_json, print_table, say
from kizami.core.slots import parse_duration, require_interval
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
@click.option(
    "--batch-size",
    type=click.IntRange(1, 10),
    default=1,
    show_default=True,
    help="As in the deployment's context.",
)
@click.option("--warnings-only", is_flag=True, help="With log_level=warn in the deployment's context.")
@json_option
@config_option
def command(
    targets: int | None,
    interval: str,
    production: bool,
    batch_size: int,
    warnings_only: bool,
    as_json: bool,
    config: Path | None,
) -> None:
    """Estimate what a month on AWS costs, at list prices, part by part.

    Without --targets and without a kizami.toml it is one target, the mock API, every 5 seconds. The last column
    is the estimate of the original design, from which kizami was made, for that one target.
    """
    intervals, with_mock = _what_is_polled(targets, interval, config)
    parts = estimate(Deployment(intervals, with_mock, production, batch_size, warnings_only))
    if as_json:
        print_json(_document(parts, intervals))
    else:
        print_table(_COLUMNS, _rows(parts))
    mock = " (the mock API)" if with_mock else ""
    say(f"{plural(len(intervals), 'target')}{mock}; list prices of {PRICES_OF}, US East, before taxes")


def _what_is_polled(targets: int | None, interval: str, config: Path | None) -> tuple[list[int], bool]:
    if targets is not None:
        return [require_interval(parse_duration(interval, "interval"))] * targets, False
    settings = load_config(config)
    return [target.interval_seconds for target in settings.config.enabled_targets], settings.path is None


def _rows(parts: Sequence[Part]) -> list[list[str]]:
    rows = []
    for service in services(parts):
        members = [part for part in parts if part.service == service]
        rows += [[service, part.what, _quantity(part.quantity), *_prices([part]), ""] for part in members]
        rows.append([service, "together", "", *_prices(members), _dollars(SEED_ESTIMATE.get(service))])
    return [*rows, ["total", "", "", *_prices(parts), _dollars(sum(SEED_ESTIMATE.values()))]]


def _prices(parts: Sequence[Part]) -> list[str]:
    return [
        _dollars(sum(part.dollars for part in parts)),
        _dollars(sum(part.dollars_after_free for part in parts)),
    ]


def _dollars(amount: float | None) -> str:
    return "-" if amount is None else f"${amount:,.2f}"


def _quantity(quantity: float) -> str:
    return f"{quantity:,.0f}" if quantity >= 100 else f"{quantity:.3g}"


def _document(parts: Sequence[Part], intervals: Sequence[int]) -> dict[str, Any]:
    return {
        "targets": len(intervals),
        "prices": PRICES_OF,
        "parts": [
            {
                "service": part.service,
                "part": part.what,
                "quantity": round(part.quantity, 3),
                "dollars": round(part.dollars, 4),
                "dollarsAfterFreeTier": round(part.dollars_after_free, 4),
            }
            for part in parts
        ],
        "dollars": round(sum(part.dollars for part in parts), 2),
        "dollarsAfterFreeTier": round(sum(part.dollars_after_free for part in parts), 2),
        "originalEstimate": {**SEED_ESTIMATE, "total": round(sum(SEED_ESTIMATE.values()), 2)},
    }
