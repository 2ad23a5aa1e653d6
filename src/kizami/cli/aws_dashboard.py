"""What `kizami dashboard --backend aws` shows: the stack that the options name, found as other verbs find it."""

from __future__ import annotations

import os

from kizami.aggregation.points import DEFAULT_ZONE, require_zone
from kizami.aggregation.stores.company_states import CompanyTables
from kizami.aws.home import AwsHome, AwsParts
from kizami.aws.reconciler import read_policy
from kizami.cli.aws_backend import deployed_targets
from kizami.cli.aws_places import AwsPlaces
from kizami.cli.homes import HomeOptions
from kizami.platform.clock import SystemClock


def aws_source(home: HomeOptions) -> AwsHome:
    """The dashboard's view of a stack; ConfigurationError where its parts cannot be found."""
    places = AwsPlaces(home)
    tables = places.company_tables
    zone = require_zone(os.environ.get("AGGREGATION_TZ") or DEFAULT_ZONE, "AGGREGATION_TZ")
    return AwsHome(
        AwsParts(places.table, places.queue, places.backfill_queue, places.dead_letter_queue),
        deployed_targets(home),
        SystemClock(),
        read_policy(os.environ).grace_seconds,
        _command_options(home),
        CompanyTables(*tables, zone) if tables else None,
    )


def _command_options(home: HomeOptions) -> dict[str, str]:
    """What leads the other verbs to the same stack, as far as it was said here."""
    said = {"--backend": "aws", "--config": home.config, "--table": home.table, "--stack": home.stack}
    return {name: str(value) for name, value in said.items() if value is not None}
