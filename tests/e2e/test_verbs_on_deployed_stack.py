"""The command line against a deployed stack: it asks for past slots, the functions collect them, it reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from command import Outcome, environment, run_process
from kizami.cli.exit_codes import CONFIGURATION, OK
from kizami.slots import floor_to_minute, format_instant
from ministack import DeployedStack, LocalAws
from polled_api import PolledApi, serving
from template import synthesize

Kizami = Callable[..., Outcome]


@pytest.fixture(scope="module")
def stack(aws: LocalAws) -> Iterator[DeployedStack]:
    with serving(PolledApi()) as api:
        yield aws.deploy(synthesize(api_base_url=api.url), "for-verbs")


@pytest.fixture
def kizami(stack: DeployedStack, tmp_path: Path) -> Kizami:
    def run(*arguments: str) -> Outcome:
        env = environment(**stack.aws.environment)
        return run_process(*arguments, "--backend", "aws", cwd=tmp_path, env=env)

    return run


def test_past_slots_are_asked_for_collected_and_read(kizami: Kizami) -> None:
    end = floor_to_minute(datetime.now(UTC) - timedelta(hours=2))
    window = ("--from", format_instant(end - timedelta(minutes=2)), "--to", format_instant(end))
    found = kizami("backfill", *window, "--stack", "for-verbs", "--json")
    assert found.code == OK, found.err
    assert (found.json["asked"], found.json["stored"]) == (24, 24)
    found = kizami("query", "ai_response_count", *window, "--stack", "for-verbs", "--json")
    assert (found.json["stored"], found.json["expected"]) == (24, 24)
    found = kizami("gaps", *window, "--check", "--stack", "for-verbs")
    assert found.code == OK, found.err
    found = kizami("chart", "ai_response_count", *window, "--stack", "for-verbs")
    assert found.code == OK, found.err
    exported = kizami("export", *window, "--format", "csv", "--stack", "for-verbs")
    assert len(exported.out.splitlines()) == 1 + 24
    status = kizami("status", "--stack", "for-verbs", "--json").json
    assert status["deadLetters"] == 0


def test_a_stack_that_is_not_there_is_one_line(kizami: Kizami) -> None:
    found = kizami("status", "--stack", "nope")
    assert found.code == CONFIGURATION
    assert found.err.startswith("kizami: --stack: ")
    assert len(found.err.splitlines()) == 1
