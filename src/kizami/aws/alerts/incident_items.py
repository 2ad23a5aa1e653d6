"""Incidents on AWS: items of the metric table, in a partition that no metric can have.

A run reads the state, decides, writes incidents and messages, and at last the state, on the condition that it is
still as it was read. A run that dies before that is done again by the next one, with messages of the same keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any

from kizami.alerts.decision import AlertState, Decision
from kizami.alerts.documents import read_members, read_notices, write_document
from kizami.aws.alerts.packed_documents import PackedDocuments
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item
from kizami.aws.invocation import TimeLeft
from kizami.backend.incidents import Incident
from kizami.core.epoch import from_ms, to_ms

ALERTS_PARTITION = "#alerts"
_STATE, _INCIDENT, _OUTBOX = "state", "incident/", "outbox/"
_NUMBER = "{:012}"
_PAST_ALL = "~"  # sorts behind every number


@dataclass(frozen=True, slots=True)
class KeptState:
    """The state as it was read, and which version of it that was."""

    state: AlertState
    version: Fields | None = None


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """A message that its receiver has not taken yet."""

    key: str
    receiver: str
    document: dict[str, Any]
    created_at: datetime


class IncidentItems:
    """The items of a table; reads are consistent. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left
        self._documents = PackedDocuments(table, ALERTS_PARTITION, time_left)

    def read(self) -> KeptState:
        """Where the last run was."""
        last = self._find(_STATE)
        if last is None:
            return KeptState(AlertState())
        head, kept = last[0], json.loads(last[1])
        incidents = tuple(found for number in kept["inMind"] if (found := self.incident(number)) is not None)
        told = {(rule, group, topic): from_ms(at) for rule, group, topic, at in kept["toldAt"]}
        return KeptState(AlertState(incidents, kept["next"], told), head["version"])

    def save(self, decision: Decision, outbox: dict[str, dict[str, Any]], before: KeptState) -> bool:
        """Keep a decision with its messages, by their keys; False if another run was quicker."""
        if not all(map(self._write, decision.changed)):
            return False
        for key, document in outbox.items():
            item = {**self._documents.key(f"{_OUTBOX}{key}"), "document": {"S": _json(document)}}
            self._change("PutItem", {"Item": item})
        return self._documents.write(_STATE, _write_state(decision.state), {}, before.version)

    def incident(self, number: int) -> Incident | None:
        """The incident of that number."""
        found = self._find(_incident_key(number))
        return None if found is None else _read(*found)

    def newest(self, before: int | None = None) -> Iterator[Incident]:
        """All of them, newest first, from after the number `before` on, read as they are asked for."""
        last = _PAST_ALL if before is None else _NUMBER.format(before - 1)
        bounds = {":first": {"S": _INCIDENT}, ":last": {"S": f"{_INCIDENT}{last}"}}
        for head in self._documents.query("slotTime BETWEEN :first AND :last", bounds, ScanIndexForward=False):
            if (found := self._documents.read(head)) is not None:
                yield _read(*found)

    def outbox(self) -> Iterator[OutboxItem]:
        """What is to be delivered, oldest incident first."""
        for item in self._documents.query("begins_with(slotTime, :outbox)", {":outbox": {"S": _OUTBOX}}):
            document = json.loads(item["document"]["S"])
            created = datetime.fromisoformat(document["at"])
            yield OutboxItem(item["slotTime"]["S"], document["receiver"], document, created)

    def settle(self, item: OutboxItem) -> None:
        """Its receiver has answered, or nobody tries any more."""
        self._change("DeleteItem", {"Key": self._documents.key(item.key)})

    def order(self, number: int, **changes: str) -> None:
        """Note what somebody has ordered about an incident; the runs leave it alone."""
        self._documents.set(_incident_key(number), {name: {"S": text} for name, text in changes.items()})

    def revoke(self, number: int, name: str) -> None:
        """What was ordered about an incident holds no more."""
        request = {"UpdateExpression": "REMOVE #0", "ExpressionAttributeNames": {"#0": name}}
        self._change("UpdateItem", {"Key": self._documents.key(_incident_key(number)), **request})

    def _find(self, key: str) -> tuple[Fields, str] | None:
        head = self._documents.head(key)
        return None if head is None else self._documents.read(head)

    def _write(self, incident: Incident) -> bool:
        """Whether no other run has written it at the same time."""
        key = _incident_key(incident.number)
        seen = self._documents.head(key) or {}  # also of a new one: a run may have died after it was written
        return self._documents.write(key, write_document(incident), _attributes(incident), seen.get("version"))

    def _change(self, operation: str, request: Fields) -> None:
        change_item(self._time_left, operation, {"TableName": self._table, **request})


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)


def _write_state(state: AlertState) -> str:
    told = [[*topic, to_ms(at)] for topic, at in state.told_at.items()]
    in_mind = [incident.number for incident in state.incidents]
    return _json({"next": state.next_number, "inMind": in_mind, "toldAt": told})


def _attributes(incident: Incident) -> Fields:
    """What stands beside the document."""
    written = {
        "number": {"N": str(incident.number)},
        "family": {"S": incident.group},
        "topic": {"S": incident.topic},
        "cause": {"S": incident.cause},
        "since": {"N": str(to_ms(incident.since))},
    }
    return written if incident.over_since is None else {**written, "over": {"N": str(to_ms(incident.over_since))}}


def _incident_key(number: int) -> str:
    return f"{_INCIDENT}{_NUMBER.format(number)}"


def _read(item: Fields, document: str) -> Incident:
    def moment(name: str) -> datetime | None:
        return from_ms(int(item[name]["N"])) if name in item else None

    def ordered(name: str) -> datetime | None:
        return datetime.fromisoformat(item[name]["S"]) if name in item else None

    texts = item["family"]["S"], item["topic"]["S"], item["cause"]["S"]
    since = moment("since")
    assert since is not None
    return Incident(
        int(item["number"]["N"]),
        *texts,
        since,
        read_members(document),
        read_notices(document),
        moment("over"),
        ordered("acknowledgedAt"),
        item.get("acknowledgedBy", {}).get("S", ""),
        ordered("silencedUntil"),
    )
