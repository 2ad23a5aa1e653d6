"""Scheduling: a rule fires each minute, the Sender queues its delayed messages (1.1–1.3, 6.2, 6.3, 6.5)."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from constructs import Construct

from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.environment import target_environment
from kizami.cdk.parts.functions import allow, allow_key, make_function, memory_for, trigger
from kizami.cdk.parts.queues import make_dead_letters, make_queue
from kizami.cdk.settings import MEMORY_MB, SENDER_TIMEOUT_SECONDS


class Scheduling(Construct):
    """The rule `rate(1 minute)`, the Sender, the queue and its dead letters."""

    def __init__(self, scope: Construct, id: str, foundation: Foundation) -> None:
        super().__init__(scope, id)
        # The context may ask for the seeds' bare queue.
        has_limit = foundation.settings.max_receives > 0
        self.dead_letters = make_dead_letters(self, "DeadLetters", foundation) if has_limit else None
        self.queue = make_queue(self, "Queue", foundation, self.dead_letters)
        self.sender = make_function(
            self,
            "Sender",
            foundation,
            handler="kizami.aws.sender.handler",
            description="Sends the messages of one minute, each with its delay",
            timeout_seconds=SENDER_TIMEOUT_SECONDS,
            memory_mb=foundation.settings.sender_memory_mb or memory_for(foundation, MEMORY_MB),
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
