"""SQS: messages that are delayed, handed out, hidden and come back; at least once and in no order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulation.aws_world.dynamodb import Refused
from simulation.world.timeline import SECOND, Timeline

_KEPT_SECONDS = 86_400


@dataclass(eq=False)
class Message:
    """A message on a queue."""

    id: str
    body: str
    sent_at: int
    visible_at: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    receives: int = 0
    receipt: str = ""


@dataclass
class QueueFaults:
    """What a queue does badly at present, each with its chance."""

    twice: float = 0.0  # hands a message out, and does not hide it
    forgets_delete: float = 0.0
    late_seconds: float = 0.0
    refuses: float = 0.0  # an entry of a batch


class SimulatedQueue:
    """One queue; `on_send` is told of each message, `on_visible` when one may be there to be received, `on_delete`
    of one that somebody asks to delete."""

    def __init__(
        self,
        name: str,
        timeline: Timeline,
        chance: random.Random,
        visibility_seconds: int = 30,
        max_receives: int = 0,
        dead_letters: SimulatedQueue | None = None,
    ) -> None:
        self.name = name
        self.messages: dict[str, Message] = {}
        self.faults = QueueFaults()
        self.on_visible: Callable[[], None] = lambda: None
        self.on_send: Callable[[Message], None] = lambda message: None
        self.on_delete: Callable[[Message], None] = lambda message: None
        self.visibility_seconds = visibility_seconds
        self.max_receives = max_receives
        self._dead_letters = dead_letters
        self._timeline = timeline
        self._chance = chance
        self._count = 0

    @property
    def url(self) -> str:
        return f"https://sqs.us-east-1.amazonaws.com/123456789012/{self.name}"

    def send(self, body: str, delay_seconds: int, attributes: Mapping[str, str]) -> Message:
        self._count += 1
        now = self._timeline.now
        late = self.faults.late_seconds * self._chance.random()
        visible_at = now + round((delay_seconds + late) * SECOND)
        message = Message(f"{self.name}-{self._count}", body, now, visible_at, attributes)
        self.messages[message.id] = message
        self.on_send(message)
        self._look_at(visible_at)
        return message

    def receive(self, most: int) -> list[Message]:
        """Some of those that are visible, hidden from now on; what was received too often is a dead letter."""
        now = self._timeline.now
        taken: list[Message] = []
        visible = [each for each in self.messages.values() if each.visible_at <= now]
        self._chance.shuffle(visible)
        for message in visible:
            if len(taken) == most:
                self._look_at(now)
                break
            if now - message.sent_at > _KEPT_SECONDS * SECOND:
                del self.messages[message.id]
            elif self.max_receives and message.receives >= self.max_receives:
                self._bury(message)
            else:
                taken.append(self._hand_out(message))
        return taken

    def look(self) -> None:
        """Let pollers come who had to wait."""
        self._look_at(self._timeline.now)

    def delete(self, message: Message) -> None:
        if self._chance.random() >= self.faults.forgets_delete:
            self.messages.pop(message.id, None)

    def hide(self, receipt: str, seconds: int) -> None:
        found = next((each for each in self.messages.values() if each.receipt == receipt), None)
        if found is not None:
            found.visible_at = self._timeline.now + seconds * SECOND
            self._look_at(found.visible_at)

    def _hand_out(self, message: Message) -> Message:
        now = self._timeline.now
        message.receives += 1
        message.receipt = f"{message.id}/{message.receives}"
        is_hidden = self._chance.random() >= self.faults.twice
        message.visible_at = now + (self.visibility_seconds * SECOND if is_hidden else 1)
        self._look_at(message.visible_at)
        return message

    def _bury(self, message: Message) -> None:
        del self.messages[message.id]
        if self._dead_letters is not None:
            self._dead_letters.send(message.body, 0, message.attributes)

    def _look_at(self, moment: int) -> None:
        """Pollers are there within a moment."""
        late = self._chance.randrange(SECOND // 5)
        self._timeline.at(moment + late, lambda: self.on_visible())

    # What the functions call

    def perform(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "SendMessageBatch":
            return self._send_batch(request["Entries"])
        if operation == "ChangeMessageVisibility":
            self.hide(request["ReceiptHandle"], request["VisibilityTimeout"])
            return {}
        if operation == "ReceiveMessage":
            return {"Messages": [_shown(message) for message in self.receive(request["MaxNumberOfMessages"])]}
        if operation == "DeleteMessageBatch":
            receipts = {entry["ReceiptHandle"] for entry in request["Entries"]}
            for message in [each for each in self.messages.values() if each.receipt in receipts]:
                self.on_delete(message)
                self.delete(message)
            return {}
        if operation == "ChangeMessageVisibilityBatch":
            for entry in request["Entries"]:
                self.hide(entry["ReceiptHandle"], entry["VisibilityTimeout"])
            return {}
        assert operation == "GetQueueAttributes", f"{operation} is not simulated"
        now, all_of_them = self._timeline.now, self.messages.values()
        hidden = sum(each.visible_at > now and each.receives > 0 for each in all_of_them)
        delayed = sum(each.visible_at > now and each.receives == 0 for each in all_of_them)
        counts = {"": len(self.messages) - hidden - delayed, "Delayed": delayed, "NotVisible": hidden}
        return {"Attributes": {f"ApproximateNumberOfMessages{name}": str(n) for name, n in counts.items()}}

    def _send_batch(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        if not 0 < len(entries) <= 10:
            raise Refused("TooManyEntriesInBatchRequest")
        taken, failed = [], []
        for entry in entries:
            if self._chance.random() < self.faults.refuses:
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
                continue
            attributes = entry.get("MessageAttributes", {}).items()
            plain = {name: value["StringValue"] for name, value in attributes}
            delay = entry.get("DelaySeconds", 0)
            assert 0 <= delay <= 900, f"SQS refuses a delay of {delay} s"
            message = self.send(entry["MessageBody"], delay, plain)
            taken.append({"Id": entry["Id"], "MessageId": message.id})
        return {"Successful": taken, "Failed": failed}


def _shown(message: Message) -> dict[str, Any]:
    """As it is handed to a verb."""
    typed = {name: {"StringValue": text, "DataType": "String"} for name, text in message.attributes.items()}
    told = {"ApproximateReceiveCount": str(message.receives), "SentTimestamp": str(message.sent_at // 1000)}
    return {
        "MessageId": message.id,
        "ReceiptHandle": message.receipt,
        "Body": message.body,
        "Attributes": told,
        "MessageAttributes": typed,
    }
