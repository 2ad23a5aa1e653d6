"""`kizami init`: a kizami.toml to start from, with every setting explained."""

from __future__ import annotations

from pathlib import Path

import click

from kizami.cli.recipe_names import complete_recipe, find_recipe
from kizami.cli.terminal.printing import say, unwritable
from kizami.platform.config_file import DEFAULT_CONFIG

# Every setting stands in it once, commented out where it only repeats the default; a test holds it to that.
TEMPLATE = """\
# kizami.toml: what is polled. `kizami targets` checks this file, `kizami doctor` asks every target once, and a
# running `kizami up` takes a change over when the file is saved. So that editors check it, too, save what
# `kizami targets --schema` prints as kizami.schema.json and begin this file with: #:schema ./kizami.schema.json

# Where the page is reached from outside, for links in messages; their language, en or ja; and a URL that is asked
# each minute while kizami is well.
# public_url = "https://kizami.example.com"
# language = "en"
# heartbeat = "env:HEARTBEAT_URL"

[[targets]]
# The metric's name: letters, digits and _ . : / - (at most 128).
name = "ai_response_count"

# Where it is asked: base URL and path. {from} and {to} become the window's ends, like 2025-12-02T10:23:05Z,
# in url, path, query and body; also {to-1s}, {from:unix}, unix_ms, unix_ns, iso_ms, and {from:%Y-%m-%d}.
# This is the mock API, which `kizami up` and `kizami mock` serve.
url = "http://127.0.0.1:3000"
# path = "/response_count?from={from}&to={to}"

# How long a window is, and so how often it is asked for: a divisor of a minute (1s … 30s, 1m), or whole minutes
# that divide a day (5m, 1h, 1d).
# interval = "5s"

# How long after its start a window is asked for: a multiple of the interval, by default the interval itself, so
# that the window has ended and its count is final. Only the mock API may be asked earlier.
lag = "0s"

# One deadline for the whole request.
# timeout = "10s"

# Where the value stands in the JSON answer: a name, a JSON pointer such as "/data/0/count", "" for the whole body,
# sum(/data/*/n), length(/data), max(…) or min(…), where * walks an array; or header:Name.
# count = "count"

# Does the answer repeat the window as `from` and `to`? true demands it, false does not look; without this line
# they are checked where both are there.
echo = true

# Headers. Values that may be secret stand elsewhere: "env:NAME" or "file:PATH".
# headers = { X-Api-Key = "env:API_KEY" }

# More parameters, percent-encoded by kizami; likewise.
# query = { since = "{from:unix}", key = "env:API_KEY" }

# What is posted; other braces than those of times are literal. The method is then POST, else GET.
# body = '{"query": {"from": "{from}", "to": "{to}"}}'
# method = "POST"

# false pauses the target; its slots then stay open.
# enabled = true

# How far back missed slots are collected after a stop: up to 62 days; "0s" turns it off.
# catch_up = "24h"

# How long slots are kept, and then totals per hour; without these two, for ever. Above all [[targets]]: for all.
# keep = "90d"
# keep_totals = "5y"

# How large an answer may be, unpacked: up to 16MiB.
# max_body = "1MiB"
# Can a past window be asked for? false for an API that can only say "now": what was missed then stays missing.
# backfill = true
# Which statuses are an answer; a 204 without a body is 0.
# status = [200]

# What the answer must say besides, so that a partial page is refused instead of stored.
# require = { "/has_more" = false }  # or { "header:X-Complete" = true }

# "text" if the body is the number itself.
# format = "json"

# The bounds of what is believed; a negative min allows negative values.
# min = 0
# max = 9007199254740991

# The one part of the answer that may be missing or null; the value is then 0.
# zero_if_missing = "/count"

# Where nothing must stand: an API that tells of an error with status 200 is refused by it.
# refuse = ["/error"]  # or "header:Warning"

# How many decimal places of the value are kept: 0 to 9. A metric that has records keeps its own.
# decimals = 0

# A second target: only name and url are needed. Several values of one answer, in place of count, are the metrics
# orders/paid and orders/open of one request.
# [[targets]]
# name = "orders"
# url = "https://api.example.com"
# values = { paid = "/data/paid", open = "/data/open" }

# Who asks: a token, or { basic = ["user", "env:PASSWORD"] }, or
# { oauth2 = { token_url = "https://…", client_id = "…", client_secret = "env:SECRET", scope = "…" } }.
# auth = { bearer = "env:API_TOKEN" }

# An authority of your own, and a certificate that the server asks for (cert, key): files beside this one.
# tls = { ca = "ca.pem" }

# The proxy on the way there; one with a password is kept elsewhere: "env:PROXY_URL".
# proxy = "http://proxy.example.com:3128"

# How many requests a host may get, on one machine: at most 600 in any minute. Live polls go first; a limit below
# what the targets of the host need is refused.
# [[hosts]]
# host = "api.example.com"
# requests = "600/1m"

# Who is told when something breaks, and when it is whole again. to is "env:NAME" of an Apprise URL (slack://…,
# mailto://…), or https://… for a JSON webhook, signed with secret.
# [[alerts]]
# to = "env:ALERT_URL"
# Of what: also "late", "coverage < 99%", "above 100", "below 5", "zero for 10m", "no change for 1h",
# "sum of 10m above 1000", "differs by 50% from the same time last week".
# when = ["fails", "silent", "dead", "disk full", "queue stuck", "aggregation failed"]
# targets = ["*"]
# How long it must last; how long until the next message about the same cause; when it is told again.
# wait = "2m"
# pause = "15m"
# reminder = "1d"
# name = "ops"
# secret = "env:WEBHOOK_SECRET"

# When nobody is told: every week, or from = "2025-12-30T22:00:00Z", to = "2025-12-31T06:00:00Z".
# [[maintenance]]
# weekly = "Sun 02:00-04:00"
# time_zone = "Asia/Tokyo"

# Backups of the database, which `kizami up` makes so often; without this table it makes none.
# [backup]
# every = "1d"
# keep = 7
# directory = "backups"

# The aggregation batch, which grants users their daily points; without this table it does not run.
# [aggregation]
# How often, from 1m to 24h; the users API; and the time zone that a day begins in.
# every = "1h"
# url = "http://127.0.0.1:3000"
# time_zone = "Asia/Tokyo"

# One table a company. Its key stands elsewhere, "env:NAME" or "file:PATH"; the mock API needs none.
# [[aggregation.companies]]
# id = "company-1"
# key = "env:COMPANY_1_KEY"
"""


@click.command(short_help="Write a commented kizami.toml.")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default=DEFAULT_CONFIG)
@click.option("--recipe", metavar="NAME", shell_complete=complete_recipe, help="One of `kizami recipes` instead.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def command(path: Path, recipe: str | None, force: bool) -> None:
    """Write a commented configuration to PATH (default: ./kizami.toml).

    It polls the mock API, as kizami does without a file; every setting stands in it with its default. With
    --recipe it is a ready-made target for a service, with what to fill in.
    """
    chosen = find_recipe(recipe, "--recipe") if recipe is not None else None
    _write(path, chosen.text if chosen else TEMPLATE, force)
    if chosen:
        say(f"to fill in: {chosen.fill_in}")
    say(f"{path} written; `kizami targets` checks it, `kizami up` starts with it")


def _write(path: Path, text: str, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.ClickException(f"{path}: is there already and stays as it is; --force overwrites it") from None
    except OSError as error:
        raise unwritable(path, error) from None
