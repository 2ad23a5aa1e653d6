"""Dead letters of bundles: each of their slots is one, with its reason, and can be settled alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aws_here.deployed import Deployment
from aws_here.local_aws import lead_to
from kizami.aws.deliveries import ATTEMPTS, REASON
from kizami.aws.store.dead_letters import UNTOLD, SqsDeadLetters
from kizami.aws.store.sqs_queue import QueueEntry, SqsQueue
from kizami.core.messages import BundleMessage, write_bundle
from kizami.core.slots import Window

WINDOW = Window.of_slot(datetime(2025, 12, 2, 10, 23, tzinfo=UTC), 5)


@pytest.fixture
def deployment(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    lead_to(moto_endpoint, monkeypatch)
    return Deployment(moto_endpoint)


def bury(deployment: Deployment, *metrics: str, **attributes: str) -> None:
    entry = QueueEntry(write_bundle(BundleMessage(WINDOW, metrics)), 0, attributes)
    assert SqsQueue(deployment.dead).send_entries([entry]) == []


def seen(deployment: Deployment) -> dict[str, str]:
    letters = SqsDeadLetters(deployment.dead)
    found = {letter.metric: letter.reason for letter in letters.all()}
    letters.release()
    return found


def test_a_dead_letter_has_the_reason_and_the_attempts_that_it_was_given(deployment: Deployment) -> None:
    bury(deployment, "a", **{REASON: "status 503, expected 200", ATTEMPTS: "5"})
    (letter,) = SqsDeadLetters(deployment.dead).all()
    assert (letter.metric, letter.reason, letter.receives) == ("a", "status 503, expected 200", 5)


def test_a_bundle_that_sqs_gave_up_is_a_dead_letter_of_each_of_its_slots(deployment: Deployment) -> None:
    bury(deployment, "a", "b", "c")
    assert seen(deployment) == dict.fromkeys("abc", UNTOLD)


def test_one_slot_of_a_bundle_is_settled_and_the_others_stay_with_their_reason(deployment: Deployment) -> None:
    bury(deployment, "a", "b", "c", **{REASON: "why"})
    letters = SqsDeadLetters(deployment.dead)
    assert letters.purge(letter for letter in letters.all() if letter.metric == "b") == 1
    letters.release()
    assert seen(deployment) == {"a": "why", "c": "why"}
    letters = SqsDeadLetters(deployment.dead)
    redriven = letters.redrive(
        [each for each in letters.all() if each.metric == "a"], SqsQueue(deployment.backfill)
    )
    letters.release()
    assert redriven == 1
    assert [body.count('"metric": "a"') for body in deployment.bodies(deployment.backfill)] == [1]
    assert seen(deployment) == {"c": "why"}


def test_a_slot_that_died_twice_is_asked_for_once(deployment: Deployment) -> None:
    """SQS delivers at least once, and each delivery has its attempts."""
    for _ in range(2):
        bury(deployment, "a", **{REASON: "why"})
    letters = SqsDeadLetters(deployment.dead)
    queue = SqsQueue(deployment.backfill)
    assert letters.redrive(letters.all(), queue) == 2
    assert queue.waiting() == 1
    assert seen(deployment) == {}
