"""How a queue of ours is made: TLS only, encrypted, with a limit after which a message is a dead letter."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.findings import acknowledge
from kizami.cdk.settings import RETENTION_DAYS

DEAD_LETTER_DAYS = 14  # the longest that SQS keeps a message


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a received message is hidden, and after how many receives it is a dead letter (0: never)."""

    visibility_seconds: int
    max_receives: int


def make_dead_letters(scope: Construct, id: str, foundation: Foundation) -> sqs.Queue:
    """Where messages go that were received too often."""
    queue = sqs.Queue(
        scope,
        id,
        enforce_ssl=True,
        retention_period=Duration.days(DEAD_LETTER_DAYS),
        encryption=_encryption(foundation),
        encryption_master_key=foundation.queue_key,
    )
    acknowledge(queue, {"SQS3": "It is the dead-letter queue itself."})
    return queue


def make_queue(
    scope: Construct, id: str, foundation: Foundation, dead_letters: sqs.Queue | None, limits: Limits | None = None
) -> sqs.Queue:
    """A queue that hides a received message for the visibility timeout and keeps it for a day."""
    settings = foundation.settings
    limits = limits or Limits(settings.visibility_seconds, settings.max_receives)
    limit = None
    if dead_letters is not None:
        limit = sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=limits.max_receives)
    queue = sqs.Queue(
        scope,
        id,
        enforce_ssl=True,
        visibility_timeout=Duration.seconds(limits.visibility_seconds),
        retention_period=Duration.days(RETENTION_DAYS),
        dead_letter_queue=limit,
        encryption=_encryption(foundation),
        encryption_master_key=foundation.queue_key,
    )
    if dead_letters is None:
        acknowledge(queue, {"SQS3": "The context (max_receives=0) asks for none, as the original design does."})
    return queue


def _encryption(foundation: Foundation) -> sqs.QueueEncryption:
    return sqs.QueueEncryption.KMS if foundation.queue_key else sqs.QueueEncryption.SQS_MANAGED
