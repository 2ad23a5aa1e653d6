"""`kizami init`: a kizami.toml to start from, with every setting explained."""

from __future__ import annotations

from pathlib import Path

import click

from kizami.cli.terminal.printing import say
from kizami.platform.config_file import DEFAULT_CONFIG

# Every setting stands in it once, commented out where it only repeats the default; a test holds it to that.
TEMPLATE = """\
# kizami.toml: what is polled. `kizami targets` checks this file, `kizami doctor` asks every target once, and a
# running `kizami up` takes a change over when the file is saved.

[[targets]]
# The metric's name: letters, digits and _ . : / - (at most 128).
name = "ai_response_count"

# Where it is asked: base URL and path. {from} and {to} become the window's ends, like 2025-12-02T10:23:05Z.
# This is the mock API, which `kizami up` and `kizami mock` serve.
url = "http://127.0.0.1:3000"
# path = "/response_count?from={from}&to={to}"

# A window of how many seconds, and so how often: 1 to 60 s, a divisor of 60.
# interval = "5s"

# How long after its start a window is asked for: a multiple of the interval, by default the interval itself, so
# that the window has ended and its count is final. Only the mock API may be asked earlier.
lag = "0s"

# One deadline for the whole request.
# timeout = "10s"

# Where the count stands in the JSON answer: a name, or a JSON pointer such as "/data/0/count".
# count = "count"

# Does the answer repeat the window as `from` and `to`? Then they are checked.
# echo = true

# Headers. Values that may be secret stand elsewhere: "env:NAME" or "file:PATH".
# headers = { Authorization = "env:API_TOKEN" }

# false pauses the target; its slots then stay open.
# enabled = true

# How far back missed slots are collected after a stop: up to 31 days; "0s" turns it off.
# catch_up = "24h"

# A second target: only name and url are needed.
# [[targets]]
# name = "orders"
# url = "https://api.example.com"

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
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def command(path: Path, force: bool) -> None:
    """Write a commented configuration to PATH (default: ./kizami.toml).

    It polls the mock API, as kizami does without a file; every setting stands in it with its default.
    """
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise click.ClickException(f"{path}: is there already and stays as it is; --force overwrites it") from None
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    say(f"{path} written; `kizami targets` checks it, `kizami up` starts with it")
