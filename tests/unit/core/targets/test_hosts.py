"""Limits of requests per time for a host: what a [[hosts]] table may say, and what can be kept."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kizami.core.config import parse_config
from kizami.core.errors import ConfigurationError
from kizami.core.targets.hosts import RequestLimit, host_of


def targets(count: int, interval: str = "5s", url: str = "https://api.example.com", **more: str) -> str:
    settings = "".join(f"{name} = {value}\n" for name, value in more.items())
    return "".join(
        f'[[targets]]\nname = "{interval}-{number}"\nurl = "{url}"\ninterval = "{interval}"\n{settings}'
        for number in range(count)
    )


def limited(requests: str, host: str = "api.example.com") -> str:
    return f'[[hosts]]\nhost = "{host}"\nrequests = "{requests}"\n'


def test_a_limit_is_read_with_what_live_polls_need_of_it() -> None:
    (limit,) = parse_config(targets(2) + targets(1, "1h", enabled="false") + limited("60/1m")).hosts
    assert limit == RequestLimit("api.example.com", 60, 60, Fraction(24))
    assert limit.old == 36


@pytest.mark.parametrize(("requests", "needed"), [("1/1m", Fraction(1, 60)), ("1000/1d", 24), ("24/1h", 1)])
def test_long_intervals_need_little_of_a_short_period(requests: str, needed: Fraction) -> None:
    (limit,) = parse_config(targets(1, "1h") + limited(requests)).hosts
    assert limit.live == needed
    assert limit.old >= 1


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://API.example.com/v1", "api.example.com"),
        ("https://api.example.com:443", "api.example.com"),
        ("http://api.example.com:443", "api.example.com:443"),
        ("http://127.0.0.1:3000", "127.0.0.1:3000"),
        ("http://[::1]:80/x", "[::1]"),
    ],
)
def test_a_host_is_named_as_in_the_url(url: str, host: str) -> None:
    assert host_of(url) == host
    assert (
        parse_config(targets(1, url=url, backfill="false") + limited("600/1m", host.upper())).hosts[0].host == host
    )


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (
            targets(12) + limited("60/1m"),
            "hosts[0].requests",
            "12 targets every 5 s need 144 requests in 60 s, and retries some more; the limit is 60: "
            "poll less often, or raise it",
        ),
        (targets(12) + limited("144/1m"), "hosts[0].requests", "the limit is 144"),
        (
            targets(2) + targets(1, "1m") + limited("20/1m"),
            "hosts[0].requests",
            "2 targets every 5 s and 1 target every 60 s need 25 requests in 60 s",
        ),
        (
            targets(1) + limited("60/1m", "other.example.com"),
            "hosts[0].host",
            "is the host of no target; known: api.",
        ),
        (targets(1) + '[[hosts]]\nrequests = "60/1m"', "hosts[0].host", "is required"),
        (targets(1) + limited("60/1m") + limited("70/1m", "API.example.com"), "hosts[1].host", "is used twice"),
        (targets(1) + limited("60 per minute"), "hosts[0].requests", 'must be like "60/1m"'),
        (targets(1) + limited("0/1m"), "hosts[0].requests", "must be like"),
        (targets(1) + limited("60/0s"), "hosts[0].requests", "must be like"),
        (targets(1) + limited("60/2d"), "hosts[0].requests", "must be like"),
        (targets(1) + limited("100001/1d"), "hosts[0].requests", "must be like"),
        (targets(1) + '[[hosts]]\nhost = "api.example.com"', "hosts[0].requests", "must be like"),
        (
            targets(1) + limited("60/1m") + "burst = 3",
            "hosts[0]: burst",
            "is not a setting; known: host, requests",
        ),
        (targets(1) + "[hosts]\n", "hosts", "must be tables: write [[hosts]], in double brackets"),
        ("hosts = [1]\n" + targets(1), "hosts[0]", "must be a table"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        parse_config(text)
    assert refusal.value.place == f"kizami.toml: {place}"
    assert words in refusal.value.problem
