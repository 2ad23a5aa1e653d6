"""A delivery of a bundle: every slot stored, kept or on a queue again, whatever happens to one of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aws_here.bundled import Bundled, deploy_bundles
from aws_here.lambda_events import log_lines
from fakes.fault_server import Exchange, FaultServer, head, status
from kizami.aws.store.sqs_queue import NotTaken, QueueEntry, SqsQueue
from kizami.core.messages import BundleMessage, MetricRecord, read_bundle
from kizami.core.slots import Window, floor_to_slot, format_instant

NAMES = [f"m{number:02d}" for number in range(30)]


class Api:
    """An API whose targets answer with the seconds of their window's end, or as they are told to."""

    def __init__(self) -> None:
        self.ways: dict[str, Any] = {}
        self.asked: list[str] = []

    def __call__(self, exchange: Exchange) -> None:
        name = urlsplit(exchange.request.target).path.split("/")[1]
        self.asked.append(name)
        way = self.ways.get(name)
        if callable(way):
            way(exchange)
            return
        query = parse_qs(urlsplit(exchange.request.target).query)
        body = json.dumps({"from": query["from"][0], "to": query["to"][0], "count": 7}).encode()
        exchange.write(head(len(body), way or 200) + body)


@pytest.fixture
def api() -> Iterator[Api]:
    served = Api()
    with FaultServer(served) as server:
        served.url = server.url  # type: ignore[attr-defined]
        yield served


@pytest.fixture
def aws(
    api: Any, dynamodb_local_endpoint: str, moto_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bundled:
    tables = (f'[[targets]]\nname = "{name}"\nurl = "{api.url}/{name}"\ntimeout = "2s"\n' for name in NAMES)
    text = "".join(table + 'path = "/response_count?from={from}&to={to}"\n' for table in tables)
    return deploy_bundles(text, tmp_path, dynamodb_local_endpoint, moto_endpoint, monkeypatch)


def tick(seconds_ago: int = 30) -> Window:
    start = floor_to_slot(datetime.now(UTC) - timedelta(seconds=seconds_ago))
    return Window(start, start + timedelta(seconds=5))


def whole(aws: Bundled, window: Window) -> BundleMessage:
    return BundleMessage(window, aws.the_bundle.members)


def keys(window: Window, names: list[str] = NAMES) -> set[tuple[str, str]]:
    return {(name, format_instant(window.start)) for name in names}


def test_all_slots_of_a_bundle_are_stored_and_its_tick_is_whole(
    aws: Bundled, capsys: pytest.CaptureFixture[str]
) -> None:
    window = tick()
    assert aws.collect(whole(aws, window)) == {"batchItemFailures": []}
    assert aws.records().keys() == keys(window)
    (noted,) = aws.ticks(aws.the_bundle, window.start, window.end)
    assert (noted.slot, noted.lacking) == (window.start, frozenset())
    (line,) = log_lines(capsys)
    assert (line["event"], line["slots"], line["stored"]) == ("bundle.collected", 30, 30)
    assert aws.messages(aws.queue) == aws.messages(aws.dead) == []


def test_a_bundle_that_comes_again_after_a_crash_finds_what_is_stored(aws: Bundled) -> None:
    window = tick()
    first = [MetricRecord(name, window.start, 1, window.start) for name in NAMES[:12]]
    aws.store(first)  # and then the function was gone
    assert aws.collect(whole(aws, window)) == {"batchItemFailures": []}
    records = aws.records()
    assert records.keys() == keys(window)
    assert {records[key] for key in keys(window, NAMES[:12])} == {"1"}, "a stored record never changes"
    (noted,) = aws.ticks(aws.the_bundle, window.start, window.end)
    assert not noted.lacking


def test_a_slot_that_fails_goes_back_alone_and_the_others_are_stored(aws: Bundled, api: Api) -> None:
    api.ways = {"m03": 500, "m17": 429}
    window = tick()
    assert aws.collect(whole(aws, window)) == {"batchItemFailures": []}
    assert aws.records().keys() == keys(window, [name for name in NAMES if name not in api.ways])
    (noted,) = aws.ticks(aws.the_bundle, window.start, window.end)
    assert {aws.the_bundle.members[place] for place in noted.lacking} == {"m03", "m17"}
    assert aws.messages(aws.queue) == [], "it comes back after a while, not at once"
    # Alone, when the API is well again: its tick becomes whole.
    api.ways = {}
    for name in ("m03", "m17"):
        aws.collect(BundleMessage(window, (name,)), messageAttributes={"attempts": {"stringValue": "1"}})
    assert aws.records().keys() == keys(window)
    (noted,) = aws.ticks(aws.the_bundle, window.start, window.end)
    assert not noted.lacking


def test_a_rate_limit_is_waited_for_as_told_even_for_longer_than_sqs_delays_a_message(
    aws: Bundled, api: Api, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = math.ceil(datetime.now(UTC).timestamp()) + 3000
    told = {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(ends), "X_RateLimit_Limit": "60"}
    api.ways = {"m03": status(403, **told), "m04": status(403, X_RateLimit_Remaining="0", X_RateLimit_Reset="300")}
    sent: list[QueueEntry] = []

    def send(queue: SqsQueue, entries: list[QueueEntry]) -> list[NotTaken]:
        sent.extend(entries)
        return []

    monkeypatch.setattr(SqsQueue, "send_entries", send)
    window = tick()
    for _ in range(2):  # a bad key would be blocked now
        assert aws.collect(BundleMessage(window, ("m03", "m04"))) == {"batchItemFailures": []}
    long, short = sent[2:]
    assert (short.delay_seconds, set(short.attributes)) == (300, {"attempts", "reason"})
    assert long.delay_seconds == 900
    assert ends <= int(long.attributes["notBefore"]) <= ends + 2
    end = datetime.fromtimestamp(ends, UTC)
    assert long.attributes["reason"].startswith("status 403, expected 200: a rate limit; it ends at ")
    assert format_instant(end)[:15] in long.attributes["reason"]
    # After that delay it is not asked for, but waits on, and that is no attempt.
    asked, attributes = len(api.asked), {name: {"stringValue": text} for name, text in long.attributes.items()}
    assert aws.collect(long.body, messageAttributes=attributes) == {"batchItemFailures": []}
    assert len(api.asked) == asked
    assert (sent[4].delay_seconds, sent[4].attributes["attempts"]) == (900, "1")
    assert sent[4].attributes["notBefore"] == long.attributes["notBefore"]
    api.ways = {}
    attributes["notBefore"] = {"stringValue": str(ends - 3001)}
    aws.collect(long.body, messageAttributes=attributes)
    assert aws.records().keys() == keys(window, ["m03"])
    assert "target.blocked" not in {line["event"] for line in log_lines(capsys)}


def test_a_403_that_tells_of_requests_that_are_left_blocks_its_target(
    aws: Bundled, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.ways = {"m03": status(403, X_RateLimit_Remaining="57", X_RateLimit_Reset="300")}
    for seconds_ago in (40, 35):
        aws.collect(BundleMessage(tick(seconds_ago), ("m03",)))
    assert "target.blocked" in {line["event"] for line in log_lines(capsys)}


def test_after_the_limit_it_is_a_dead_letter_with_its_reason(
    aws: Bundled, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.ways = {"m03": 503}
    window = tick()
    counted = {"attempts": {"stringValue": "4", "dataType": "String"}}
    assert aws.collect(BundleMessage(window, ("m03",)), messageAttributes=counted) == {"batchItemFailures": []}
    (letter,) = aws.messages(aws.dead)
    assert read_bundle(letter["body"]) == BundleMessage(window, ("m03",))
    assert letter["reason"] == "status 503, expected 200"
    assert "slot.dead" in {line["event"] for line in log_lines(capsys)}


def test_a_hanging_target_keeps_no_other_from_the_table(aws: Bundled, api: Api) -> None:
    seen: list[int] = []

    def hang(exchange: Exchange) -> None:
        exchange.stopping.wait(1.2)
        seen.append(len(aws.records()))

    api.ways = {"m05": hang}
    assert aws.collect(whole(aws, tick())) == {"batchItemFailures": []}
    assert seen == [29], "stored while the one still hung"


def test_a_message_that_nobody_can_read_is_a_dead_letter_at_once(aws: Bundled) -> None:
    assert aws.collect('{"from": "yesterday"}') == {"batchItemFailures": []}
    (letter,) = aws.messages(aws.dead)
    assert letter["body"] == '{"from": "yesterday"}'
    assert letter["reason"].startswith("from: ") or letter["reason"].startswith("to: ")


def test_a_metric_that_is_no_target_any_more_is_a_dead_letter_and_the_others_are_stored(aws: Bundled) -> None:
    window = tick()
    assert aws.collect(BundleMessage(window, ("m00", "gone", "m01"))) == {"batchItemFailures": []}
    assert aws.records().keys() == keys(window, ["m00", "m01"])
    (letter,) = aws.messages(aws.dead)
    assert "is not a target" in letter["reason"]


def test_what_there_is_no_time_for_goes_back_together_and_no_attempt_is_counted(aws: Bundled, api: Api) -> None:
    window = tick()
    assert aws.collect(whole(aws, window), seconds=0.9) == {"batchItemFailures": []}
    assert api.asked == []
    assert aws.records() == {}


def test_what_cannot_be_sent_back_is_delivered_again(
    aws: Bundled, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.ways = {"m03": 500}
    monkeypatch.setenv("QUEUE_URL", aws.queue + "-not-there")
    window = tick()
    failed = aws.collect(whole(aws, window))
    assert failed == {"batchItemFailures": [{"itemIdentifier": "message-0"}]}
    assert len(aws.records()) == 29


def test_a_blocked_target_is_left_alone_and_its_slots_are_kept(aws: Bundled, api: Api) -> None:
    api.ways = {"m03": 404}
    for seconds_ago in (40, 35):
        aws.collect(whole(aws, tick(seconds_ago)))
    asked = api.asked.count("m03")
    window = tick(30)
    aws.collect(whole(aws, window))
    assert api.asked.count("m03") == asked == 2
    (noted,) = aws.ticks(aws.the_bundle, window.start, window.end)
    assert {aws.the_bundle.members[place] for place in noted.lacking} == {"m03"}
