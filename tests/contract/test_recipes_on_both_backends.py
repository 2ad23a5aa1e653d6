"""Every recipe through the real clients of both backends, against its API's documented answers on the loopback."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from fakes.canned_api import as_documented, canned, without_tokens
from fakes.fault_server import FaultServer
from kizami.aws.client import secrets
from kizami.core.config import parse_config
from kizami.core.messages import ScheduleMessage
from kizami.core.targets.references import SecretReference
from kizami.recipes.catalogue import read_recipe, recipe_names
from programs.both_clients import Ask, ask_on_aws, ask_on_one_machine
from samples.recipe_answers import Documented, documented, pointed_at, referenced, secret_of


@pytest.fixture(autouse=True)
def kept_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The secrets of all recipes, where both backends look for them."""
    monkeypatch.chdir(tmp_path)
    for name in recipe_names():
        for kind, place in referenced(read_recipe(name).text):
            if kind == "env":
                monkeypatch.setenv(place, secret_of(place))
            else:
                Path(place).write_text(secret_of(place) + "\n")
    monkeypatch.setattr(secrets, "_fetch", kept)


def kept(reference: SecretReference) -> str:
    return secret_of(reference.name)


@pytest.mark.parametrize("ask", [ask_on_one_machine, ask_on_aws])
@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_asks_as_documented_and_gets_the_answer(name: str, ask: Ask) -> None:
    api = documented(name)
    with FaultServer(canned(api, api.answers[0])) as server:
        (target,) = parse_config(pointed_at(server.url, read_recipe(name).text)).targets
        response = ask(target, ScheduleMessage(api.window, target.name))
    (seen,) = without_tokens(api, server.requests)
    assert as_documented(seen, api.request) == api.request
    assert (response.status, response.body) == (api.answers[0].status, api.answers[0].body)
    assert_token_asked_for(api, server)


def assert_token_asked_for(api: Documented, server: FaultServer) -> None:
    if not api.token:
        return
    (asked,) = (request for request in server.requests if request.target == api.token["path"])
    form = dict(pair.split("=") for pair in asked.body.decode().split("&"))
    assert form["grant_type"] == "client_credentials"
    credentials = asked.headers.get("authorization", "").removeprefix("Basic ")
    assert "client_secret" in form or b"secret-of-" in base64.b64decode(credentials)
