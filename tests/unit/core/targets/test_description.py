"""A target's settings are shown as they are configured, and no secret is among them."""

from __future__ import annotations

from kizami.core.config import parse_config
from kizami.core.targets.description import hide_secrets, shown_settings
from kizami.core.targets.target import SEED_TARGET

FILE = """
[[targets]]
name = "orders"
url = "https://orders.example.com/v1"
path = "/orders?since={from}&until={to}"
interval = "10s"
count = "/data/total"
headers = { x-api-key = "env:ORDERS_KEY", accept = "application/json" }
auth = { bearer = "env:TOKEN" }
"""


def test_what_is_set_is_shown_with_references_in_place_of_secrets() -> None:
    (target,) = parse_config(FILE).targets
    shown = shown_settings(target)
    assert (shown["url"], shown["interval"]) == ("https://orders.example.com/v1", "10")
    assert shown["headers"] == '{"x-api-key": "env:ORDERS_KEY", "accept": "application/json"}'
    assert shown["auth"] == '{"bearer": "env:TOKEN"}'
    assert "name" not in shown
    assert "max_body" not in shown  # as usual


def test_what_is_a_secret_by_its_name_is_not_shown_even_if_it_stands_in_the_file() -> None:
    written = {"token": "abc", "region": "tokyo", "basic": ["me", "pass"], "nested": {"api_key": "x", "id": 1}}
    hidden = {"token": "***", "region": "tokyo", "basic": ["***", "***"], "nested": {"api_key": "***", "id": 1}}
    assert hide_secrets(written) == hidden
    assert hide_secrets("http://me:pass@proxy:3128", "proxy") == "***"


def test_the_original_target_is_shown_like_any_other() -> None:
    assert shown_settings(SEED_TARGET)["interval"] == "5"
