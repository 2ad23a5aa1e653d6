"""Scheduling: a rule fires each minute, the Sender queues its delayed messages (1.1–1.3, 6.2, 6.3, 6.5)."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from constructs import Construct

from infra.environment import target_environment
from infra.foundation import Foundation
from infra.functions import allow, allow_key, make_function, trigger
from infra.queues import make_dead_letters, make_queue
from infra.settings import SENDER_TIMEOUT_SECONDS

SENDER_MEMORY_STEPS = ((20, 128), (200, 512), (500, 1024))  # targets, MB: CPU comes with memory
SENDER_MEMORY_MOST_MB = 1769  # one whole CPU


class Scheduling(Construct):
    """The rule `rate(1 minute)`, the Sender, the queue and its dead letters."""

    def __init__(self, scope: Construct, id: str, foundation: Foundation) -> None:
        super().__init__(scope, id)
        self.dead_letters = make_dead_letters(self, "DeadLetters", foundation)
        self.queue = make_queue(self, "Queue", foundation, self.dead_letters)
        self.sender = make_function(
            self,
            "Sender",
            foundation,
            handler="kizami.aws.sender.handler",
            description="Sends the messages of one minute, each with its delay",
            timeout_seconds=SENDER_TIMEOUT_SECONDS,
            memory_mb=sender_memory_mb(foundation),
            environment={"QUEUE_URL": self.queue.queue_url, **target_environment(foundation)},
        )
        allow(self.sender, ["sqs:SendMessage"], [self.queue.queue_arn])
        allow_key(self.sender, foundation.queue_key, "sqs", ["kms:GenerateDataKey", "kms:Decrypt"])
        self.rule = events.Rule(
            self,
            "EachMinute",
            description="Triggers the Sender each minute",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[trigger(self.sender)],
        )


def sender_memory_mb(foundation: Foundation) -> int:
    """The Sender's memory: as the context says, else enough CPU to send all targets' messages in time."""
    if foundation.settings.sender_memory_mb:
        return foundation.settings.sender_memory_mb
    fitting = (memory for most, memory in SENDER_MEMORY_STEPS if len(foundation.targets) <= most)
    return next(fitting, SENDER_MEMORY_MOST_MB)
