"""The command line and the page against a deployed stack: they ask for past slots, the functions collect them."""

from __future__ import annotations

import html
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from aws_here.ministack import DeployedStack, LocalAws
from aws_here.template import synthesize
from browser.conftest import OpenPage
from fakes.polled_api import PolledApi, serving
from kizami.cli.exit_codes import CONFIGURATION, OK
from kizami.core.messages import write_message
from kizami.core.sender import message_for_slot
from kizami.core.slots import floor_to_minute, format_instant
from kizami.core.targets.target import Target
from programs.command import KIZAMI, Outcome, environment, run_process

Kizami = Callable[..., Outcome]


@pytest.fixture(scope="module")
def stack(aws: LocalAws) -> Iterator[DeployedStack]:
    with serving(PolledApi()) as api:
        yield aws.deploy(synthesize(api_base_url=api.url), "for-verbs", rules=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place without a configuration."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def kizami(stack: DeployedStack, directory: Path) -> Kizami:
    def run(*arguments: str) -> Outcome:
        env = environment(**stack.aws.environment)
        return run_process(*arguments, "--backend", "aws", cwd=directory, env=env)

    return run


@pytest.fixture(scope="module")
def first() -> datetime:
    """The first slot of the two minutes that are asked for, two hours ago."""
    return floor_to_minute(datetime.now(UTC) - timedelta(hours=2))


@pytest.fixture(scope="module")
def backfilled(kizami: Kizami, first: datetime) -> Outcome:
    window = ("--from", format_instant(first), "--to", format_instant(first + timedelta(minutes=2)))
    return kizami("backfill", *window, "--stack", "for-verbs", "--json")


def test_past_slots_are_asked_for_collected_and_read(kizami: Kizami, first: datetime, backfilled: Outcome) -> None:
    found = backfilled
    window = ("--from", format_instant(first), "--to", format_instant(first + timedelta(minutes=2)))
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


@pytest.fixture
def dashboard(stack: DeployedStack, backfilled: Outcome, directory: Path) -> Iterator[str]:
    """The address of `kizami dashboard --backend aws`, which runs beside the stack."""
    process = subprocess.Popen(
        [*KIZAMI, "dashboard", "--backend", "aws", "--stack", stack.name, "--port", "0"],
        cwd=directory,
        env=environment(**stack.aws.environment),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        found = re.search(r"http://[\d.:]+", line := process.stderr.readline())
        assert found, line
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_page_shows_the_deployed_stack_and_repairs_it(
    stack: DeployedStack, first: datetime, dashboard: str, open_page: OpenPage, directory: Path
) -> None:
    bury(stack, first + timedelta(minutes=2))
    until, end = first + timedelta(minutes=2), first + timedelta(minutes=3)
    view = {"until": until, "from": first, "to": end}
    query = "&".join(f"{name}={format_instant(moment)}" for name, moment in view.items())
    page = open_page(f"{dashboard}/?{query}&minutes=3")
    expect(page.locator("#live")).to_have_attribute("data-state", "connected")
    told = re.compile(r"coverage 24 h .*gap.*1 dead letter")
    expect(page.locator("#verdict-sentence")).to_have_text(told)
    expect(page.locator("#grid td.backfilled")).to_have_count(24)
    expect(page.locator("#grid td.missing")).to_have_count(11)
    expect(page.locator("#grid td.dead")).to_have_count(1)
    expect(page.locator("#chart-summary")).to_contain_text("24 of 36 slots")
    expect(page.locator("#episodes tbody tr").first).to_be_visible()
    refuses_to_pause(page, dashboard)
    redrive_the_dead_letter(page)
    backfill_the_rest(page)
    expect(page.locator("#chart-summary")).to_contain_text("36 of 36 slots")
    assert len(stack.rows()) >= 36
    commands_work(page, stack, directory)


def bury(stack: DeployedStack, slot: datetime) -> None:
    """As if the slot had been tried five times, which takes a quarter of an hour."""
    body = write_message(message_for_slot(slot, Target()))
    stack.aws.client("sqs").send_message(QueueUrl=stack.outputs["DeadLetterQueueUrl"], MessageBody=body)


def refuses_to_pause(page: Page, url: str) -> None:
    expect(page.locator('[data-action="pause"]')).to_have_count(0)
    answer = page.request.post(
        f"{url}/api/v1/targets/pause", data={"metric": "ai_response_count"}, headers={"Origin": url}
    )
    assert answer.status == 400
    assert "deploy it again" in answer.json()["detail"]


def redrive_the_dead_letter(page: Page) -> None:
    dead = page.locator("#episodes tbody tr").filter(has=page.locator('[data-action="redrive"]'))
    expect(dead.locator(".reason")).to_contain_text("the Collector's log says why")
    dead.locator("button").click()
    page.locator("#dialog-confirm").click()
    expect(page.locator("#toast")).to_have_text("1 dead letter is back on the queue.")
    expect(page.locator("#grid td.dead")).to_have_count(0)
    expect(page.locator("#grid td.backfilled")).to_have_count(25)
    expect(dead).to_have_count(0)


def backfill_the_rest(page: Page) -> None:
    page.locator("#select-missing").click()
    page.locator("#backfill-selected").click()
    expect(page.locator("#dialog-heading")).to_have_text("Backfill 11 slots?")
    page.locator("#dialog-confirm").click()
    expect(page.locator("#toast")).to_have_text("11 slots are on their way.")
    expect(page.locator("#grid td.backfilled")).to_have_count(36)


def commands_work(page: Page, stack: DeployedStack, directory: Path) -> None:
    """Each panel's command leads to the same stack; no company is there, so its command is not shown."""
    found = page.locator("[data-copy]:visible").evaluate_all("found => found.map(each => each.dataset.copy)")
    requests = [each for each in map(html.unescape, found) if each.startswith("curl ")]
    verbs = [each for each in map(html.unescape, found) if each not in requests]
    assert len(verbs) >= 3
    for each in requests:
        assert page.request.get(shlex.split(each)[1]).ok, each
    # A day of slots is not really asked for.
    commands = [f"{each} --dry-run" if " backfill " in each else each for each in verbs]
    env = environment(**stack.aws.environment)
    with ThreadPoolExecutor(2) as threads:
        outcomes = threads.map(lambda each: run_process(*shlex.split(each)[1:], cwd=directory, env=env), commands)
    for command, outcome in zip(commands, outcomes, strict=True):
        assert f"--backend aws --stack {stack.name}" in command
        assert outcome.code == OK, (command, outcome.err)
