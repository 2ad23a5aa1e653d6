"""The recipes as files: a head that tells all, one target, and documented answers, which the canned API gives."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import requests

from fakes.canned_api import as_documented, canned, without_tokens
from fakes.fault_server import FaultServer
from kizami.recipes.catalogue import parse_recipe, read_recipe, recipe_names
from samples.recipe_answers import ANSWERS, DocumentedRequest, documented, pointed_at, referenced

NAMES = recipe_names()


def target_of(name: str) -> dict[str, Any]:
    (target,) = tomllib.loads(read_recipe(name).text)["targets"]
    assert isinstance(target, dict)
    return target


def test_the_head_of_a_file_is_read() -> None:
    text = "# Shop: orders\n# Counts orders\n# by the minute.\n# Fill in: YOUR-SHOP,\n#   and KEY.\n# https://x\n\n[[targets]]\n"
    recipe = parse_recipe("shop", text)
    assert (recipe.title, recipe.counts) == ("Shop: orders", "Counts orders by the minute.")
    assert (recipe.fill_in, recipe.documentation) == ("YOUR-SHOP, and KEY.", "https://x")


def test_there_are_more_than_thirty() -> None:
    assert len(NAMES) > 30


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_says_what_it_counts_what_to_fill_in_and_where_to_read_on(name: str) -> None:
    recipe = read_recipe(name)
    assert re.fullmatch(r"[^:#]+: [^:#.]+", recipe.title)
    assert recipe.counts.endswith((".", ";"))
    assert recipe.fill_in.endswith(".")
    assert re.fullmatch(r"https://\S+", recipe.documentation)
    head, _, rest = recipe.text.partition("\n\n")
    wanted = {reference for _, reference in referenced(rest)} | set(re.findall(r"YOUR[-_.][A-Z_-]+", rest))
    assert {word for word in wanted if word not in head} == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_one_target_of_its_own_name(name: str) -> None:
    assert target_of(name)["name"] == name


def test_the_answers_of_each_are_documented() -> None:
    assert sorted(path.stem for path in ANSWERS.iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_documented_are_values_of_its_metrics_and_an_answer_to_refuse(name: str) -> None:
    api = documented(name)
    metrics = {f"{name}/{value}" for value in target_of(name).get("values", ())} or {name}
    assert all(answer.values and set(answer.values) == metrics for answer in api.answers)
    assert api.answers
    assert api.refused
    assert all(answer.why for answer in api.refused)


@pytest.mark.parametrize("name", ["slack", "kinto", "stackexchange", "salesforce", "splunk"])
def test_the_canned_api_gives_the_documented_answer_and_tells_what_it_was_asked(name: str) -> None:
    api = documented(name)
    answer = api.answers[0]
    with FaultServer(canned(api, answer)) as server:
        (target,) = tomllib.loads(pointed_at(server.url, read_recipe(name).text))["targets"]
        if api.token:
            token = requests.post(target["auth"]["oauth2"]["token_url"], timeout=60)
            assert token.json()["access_token"] == "made-up-token"
        came = ask(target["url"], api.request)
    assert (came.status_code, came.headers.items() >= answer.headers.items()) == (answer.status, True)
    assert came.content == answer.body
    (seen,) = without_tokens(api, server.requests)
    assert as_documented(seen, api.request) == api.request


def ask(url: str, wanted: DocumentedRequest) -> requests.Response:
    """The documented request, sent by somebody else's client."""
    return requests.request(
        wanted.method, url, params=wanted.query, headers=wanted.headers, data=wanted.body, timeout=60
    )
