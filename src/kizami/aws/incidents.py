"""Incidents on AWS: items of the metric table in the partition `#alerts`, which no metric can have.

    `state`             which incidents go on, and when each receiver last got a message of each topic
    `incident/NUMBER`   one incident: a document of members and notices, and what operators ordered beside it
    `outbox/…`          a message that its receiver has not accepted yet
    `part/…`            parts of documents that do not fit one item

A run reads the state, decides, and writes state, incidents and messages in one transaction, on the condition that
the state is still as it was read. A run that dies before leaves nothing that counts, and one that was slower than
another has sent nothing.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from kizami.alerts.decision import AlertState, Decision
from kizami.alerts.documents import read_members, read_notices, write_document
from kizami.aws.client import machine
from kizami.aws.client.json_client import AwsError, Fields
from kizami.aws.dynamodb import PAUSES_SECONDS, call_dynamodb, change_item, read_items, store_error
from kizami.aws.invocation import TimeLeft
from kizami.backend.incidents import BACKEND, BackendEvent, Incident
from kizami.core.epoch import from_ms, to_ms
from kizami.core.errors import InvalidInput, StoreError
from kizami.core.ports import Clock
from kizami.core.slots import floor_to_second, format_instant

ALERTS_PARTITION = "#alerts"
PART_BYTES = 300_000  # of the 400 KB that an item may have
MOST_WRITES, MOST_BYTES = 100, 3_000_000  # of a transaction; DynamoDB takes 4 MB
_REFUSED = ("TransactionCanceledException", "TransactionConflictException")
_PARTS = "part/"
_READ_AGAIN = 5  # each time another run would have to write while this one reads


class PreparedHead(NamedTuple):
    """The new version of a document, whose parts are written: the update of its head makes it valid."""

    key: str
    version: str
    seen: Fields | None
    update: Fields


class PackedDocuments:
    """Documents of any size: packed in their item (the head) or, if they are long, in parts. StoreError.

    Parts of a new version are written first (`prepare`), then the heads of several documents in one transaction,
    if they are still as they were seen (`commit`); then parts of other versions are removed (`tidy`). So a head
    never names parts that do not exist. Parts of a version whose writer died are removed by the next writer of
    the document; a reader that misses a part reads the head again.
    """

    def __init__(self, table: str, partition: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._partition = partition
        self._time_left = time_left

    def head(self, key: str) -> Fields | None:
        """Return the item of that key."""
        return next(self.query("slotTime = :key", {":key": {"S": key}}), None)

    def read(self, head: Fields) -> tuple[Fields, str] | None:
        """Return a head as it is now, and its document; None if it is gone."""
        found: Fields | None = head
        for _ in range(_READ_AGAIN):
            if found is None:
                return None
            if (text := self._text(found)) is not None:
                return found, text
            found = self.head(head["slotTime"]["S"])
        raise StoreError(f"the item {head['slotTime']['S']} lacks parts of its document")

    def _text(self, head: Fields) -> str | None:
        """Return the document; None if its parts are no longer there."""
        if "document" in head:
            return _unpack(head["document"]["B"])
        prefix = _part_key(head["slotTime"]["S"], head["version"]["S"])
        parts = [item["part"]["B"] for item in self.query(*_begins_with(prefix))]
        return _unpack(*parts) if len(parts) == int(head["parts"]["N"]) else None

    def prepare(self, key: str, text: str, attributes: Fields, seen: Fields | None) -> PreparedHead:
        """Write the parts of a document, if it is long; return the update of its head, whose version is `seen`."""
        parts, version = _pack(text), _next_version(seen)
        if len(parts) == 1:
            held, removed = {"document": {"B": parts[0]}}, "parts"
        else:
            self._put_parts(key, version, parts)
            held, removed = {"parts": {"N": str(len(parts))}}, "document"
        request = _assignments({**attributes, "version": {"S": version}, **held})
        request["UpdateExpression"] += " REMOVE #removed"
        request["ExpressionAttributeNames"]["#removed"] = removed
        request["ConditionExpression"] = "attribute_not_exists(version)" if seen is None else "version = :seen"
        if seen is not None:
            request["ExpressionAttributeValues"][":seen"] = seen
        return PreparedHead(key, version, seen, {"TableName": self._table, "Key": self.key(key), **request})

    def commit(self, heads: Sequence[PreparedHead], puts: Sequence[Fields] = ()) -> bool:
        """Update heads and put items all at once; return False if another writer was quicker with the first."""
        updates = [{"Update": head.update} for head in heads]
        writes = [*updates, *({"Put": {"TableName": self._table, "Item": item}} for item in puts)]
        for pause in (0.0, *PAUSES_SECONDS):
            machine.sleep(pause)
            try:
                call_dynamodb(self._time_left, "TransactWriteItems", {"TransactItems": writes})
                return True
            except AwsError as error:
                if error.code not in _REFUSED:
                    raise store_error(error) from None
            found = (self.head(heads[0].key) or {}).get("version")
            if found == {"S": heads[0].version}:
                return True  # an attempt was carried out whose answer was lost
            if found != heads[0].seen:
                return False
        raise StoreError(f"the item {heads[0].key} is written by others at the same time")

    def tidy(self, head: PreparedHead, *, is_ours: bool) -> None:
        """Remove the parts of a version that was refused or, after one that was accepted, of all older versions.

        A write that began upon an older version is refused, and a version after ours has a higher number.
        """
        found = self.query(*_begins_with(f"{_PARTS}{head.key}/"), ProjectionExpression="slotTime")
        for part in [item["slotTime"]["S"] for item in found]:
            theirs = part.rsplit("/", 2)[1]
            is_older = theirs != head.version and _number(theirs) <= _number(head.version)
            is_done_with = is_older if is_ours else theirs == head.version
            if is_done_with:
                self._change("DeleteItem", {"Key": self.key(part)})

    def set(self, key: str, attributes: Fields) -> None:
        """Change attributes of a head and nothing else of it."""
        self._change("UpdateItem", {"Key": self.key(key), **_assignments(attributes)})

    def query(self, condition: str, values: Fields, **options: object) -> Iterator[Fields]:
        """Return the items whose keys meet a condition, with consistent reads."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": f"metricName = :partition AND {condition}",
            "ExpressionAttributeValues": {":partition": {"S": self._partition}, **values},
            "ConsistentRead": True,
            **options,
        }
        yield from read_items(self._time_left, request)

    def key(self, key: str) -> Fields:
        """Return the key of an item as DynamoDB wants it."""
        return {"metricName": {"S": self._partition}, "slotTime": {"S": key}}

    def _put_parts(self, key: str, version: str, parts: list[str]) -> None:
        for place, part in enumerate(parts):
            item = {**self.key(f"{_part_key(key, version)}{place:06}"), "part": {"B": part}}
            self._change("PutItem", {"Item": item})

    def _change(self, operation: str, request: Fields) -> None:
        change_item(self._time_left, operation, {"TableName": self._table, **request})


def _pack(text: str) -> list[str]:
    packed = zlib.compress(text.encode())
    return [b64encode(packed[start : start + PART_BYTES]).decode() for start in range(0, len(packed), PART_BYTES)]


def _unpack(*parts: str) -> str:
    return zlib.decompress(b"".join(map(b64decode, parts))).decode()


def _next_version(seen: Fields | None) -> str:
    """Return a version one higher than the one before, and unique: two runs may write at once."""
    number = 0 if seen is None else _number(next(iter(seen.values())))
    return f"{number + 1:09}-{machine.new_id()}"


def _number(version: str) -> int:
    return int(version.partition("-")[0])


def _part_key(key: str, version: str) -> str:
    return f"{_PARTS}{key}/{version}/"


def _begins_with(prefix: str) -> tuple[str, Fields]:
    return "begins_with(slotTime, :prefix)", {":prefix": {"S": prefix}}


def _assignments(attributes: Fields) -> Fields:
    names = {f"#{place}": name for place, name in enumerate(attributes)}
    values = {f":{place}": value for place, value in enumerate(attributes.values())}
    changes = ", ".join(f"#{place} = :{place}" for place in range(len(attributes)))
    return {
        "UpdateExpression": f"SET {changes}",
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


_STATE, _INCIDENT, _OUTBOX = "state", "incident/", "outbox/"
_NUMBER = "{:012}"
_PAST_ALL = "~"  # sorts behind every number

_IncidentWrite = tuple[PreparedHead, list[Fields]]  # with the outbox items of its messages


@dataclass(frozen=True, slots=True)
class KeptState:
    """The state as it was read, when the first run watched, and the versions of state and incidents."""

    state: AlertState
    version: Fields | None = None
    since: datetime | None = None
    versions: Mapping[int, Fields] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """A message that its receiver has not accepted yet."""

    key: str
    receiver: str
    document: dict[str, Any]
    created_at: datetime


class IncidentItems:
    """The incidents of a table; reads are consistent. StoreError."""

    def __init__(self, table: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._time_left = time_left
        self._documents = PackedDocuments(table, ALERTS_PARTITION, time_left)

    def read(self) -> KeptState:
        """Return the state that the last run left."""
        last = self._find(_STATE)
        if last is None:
            return KeptState(AlertState())
        head, kept = last[0], json.loads(last[1])
        told = {(rule, group, topic): from_ms(at) for rule, group, topic, at in kept["toldAt"]}
        found = {number: self._find(_incident_key(number)) for number in kept["inMind"]}
        there = {number: each for number, each in found.items() if each is not None}
        incidents = tuple(_read(*each) for each in there.values())
        versions = {number: item["version"] for number, (item, _) in there.items()}
        since = None if kept["since"] is None else from_ms(kept["since"])
        return KeptState(AlertState(incidents, kept["next"], told), head["version"], since, versions)

    def save(self, decision: Decision, outbox: Mapping[str, dict[str, Any]], before: KeptState) -> bool:
        """Write a decision with its messages, by their keys; return False if another run was quicker.

        What is too much for one transaction follows in others, each incident with its messages. Of a run that dies
        in between those incidents are left as they were, and new ones are found anew by the next run.
        """
        puts: dict[int, list[Fields]] = defaultdict(list)
        for key, document in outbox.items():
            item = {**self._documents.key(f"{_OUTBOX}{key}"), "document": {"S": _json(document)}}
            puts[document["incident"]["number"]].append(item)
        state = _write_state(decision.state, before.since)
        writes = [(self._documents.prepare(_STATE, state, {}, before.version), list[Fields]())]
        for incident in decision.changed:
            key, seen = _incident_key(incident.number), before.versions.get(incident.number)
            head = self._documents.prepare(key, write_document(incident), _attributes(incident), seen)
            writes.append((head, puts[incident.number]))
        is_ours = True
        for group in _groups(writes):
            heads = [head for head, _ in group]
            is_ours = is_ours and self._documents.commit(heads, [item for _, items in group for item in items])
            for head in heads:
                self._documents.tidy(head, is_ours=is_ours)
        return is_ours

    def incident(self, number: int) -> Incident | None:
        """Return the incident of that number, None if there is none."""
        found = self._find(_incident_key(number))
        return None if found is None else _read(*found)

    def newest(self, before: int | None = None) -> Iterator[Incident]:
        """Return incidents lazily, newest first, from after the number `before` on."""
        last = _PAST_ALL if before is None else _NUMBER.format(before - 1)
        bounds = {":first": {"S": _INCIDENT}, ":last": {"S": f"{_INCIDENT}{last}"}}
        for head in self._documents.query("slotTime BETWEEN :first AND :last", bounds, ScanIndexForward=False):
            if (found := self._documents.read(head)) is not None:
                yield _read(*found)

    def outbox(self) -> Iterator[OutboxItem]:
        """Return the messages to deliver, oldest incident first."""
        for item in self._documents.query("begins_with(slotTime, :outbox)", {":outbox": {"S": _OUTBOX}}):
            document = json.loads(item["document"]["S"])
            created = datetime.fromisoformat(document["at"])
            yield OutboxItem(item["slotTime"]["S"], document["receiver"], document, created)

    def settle(self, item: OutboxItem) -> None:
        """Remove a message that was accepted or given up."""
        self._change("DeleteItem", {"Key": self._documents.key(item.key)})

    def order(self, number: int, **changes: str) -> None:
        """Write what an operator ordered about an incident; runs leave it as it is."""
        self._documents.set(_incident_key(number), {name: {"S": text} for name, text in changes.items()})

    def revoke(self, number: int, name: str) -> None:
        """Remove what an operator ordered about an incident."""
        request = {"UpdateExpression": "REMOVE #0", "ExpressionAttributeNames": {"#0": name}}
        self._change("UpdateItem", {"Key": self._documents.key(_incident_key(number)), **request})

    def _find(self, key: str) -> tuple[Fields, str] | None:
        head = self._documents.head(key)
        return None if head is None else self._documents.read(head)

    def _change(self, operation: str, request: Fields) -> None:
        change_item(self._time_left, operation, {"TableName": self._table, **request})


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False)


def _groups(writes: Iterable[_IncidentWrite]) -> Iterator[list[_IncidentWrite]]:
    """Share writes out to transactions, as few as their limits allow."""
    group: list[_IncidentWrite] = []
    count = size = 0
    for head, items in writes:
        bytes_of = len(json.dumps([head.update, items]))
        if group and (count + 1 + len(items) > MOST_WRITES or size + bytes_of > MOST_BYTES):
            yield group
            group, count, size = [], 0, 0
        group.append((head, items))
        count, size = count + 1 + len(items), size + bytes_of
    yield group


def _write_state(state: AlertState, since: datetime | None) -> str:
    told = [[*topic, to_ms(at)] for topic, at in state.told_at.items()]
    in_mind = [incident.number for incident in state.incidents]
    began = None if since is None else to_ms(since)
    return _json({"next": state.next_number, "inMind": in_mind, "toldAt": told, "since": began})


def _attributes(incident: Incident) -> Fields:
    """Return the attributes beside the document."""
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


class AwsIncidentLog:
    """`IncidentLog` of a stack. Events are in the functions' logs there and are not listed."""

    def __init__(
        self, items: IncidentItems, clock: Clock, asker: Callable[[str], str] = lambda name: name
    ) -> None:
        self._items = items
        self._clock = clock
        self._asker = asker

    def incidents(
        self, limit: int = -1, before: int | None = None, *, open_only: bool = False, metric: str | None = None
    ) -> list[Incident]:
        found = self._items.newest(before)
        about = None if metric is None else {metric, self._asker(metric), BACKEND}
        wanted = (
            incident
            for incident in found
            if (incident.is_open or not open_only) and (about is None or incident.is_about(about))
        )
        return list(islice(wanted, None if limit < 0 else limit))

    def incident(self, number: int) -> Incident:
        found = self._items.incident(number)
        if found is None:
            raise InvalidInput("incident", f"there is none of number {number}; see `kizami alerts list --all`")
        return found

    def acknowledge(self, number: int, by: str) -> Incident:
        if self._open(number).acknowledged_at is None:
            now = format_instant(floor_to_second(self._clock.now()))
            self._items.order(number, acknowledgedAt=now, acknowledgedBy=by)
        return self.incident(number)

    def silence(self, number: int, until: datetime, by: str) -> Incident:
        self._open(number)
        self._items.order(number, silencedUntil=format_instant(floor_to_second(until)))
        return self.incident(number)

    def unsilence(self, number: int, by: str) -> Incident:
        self.incident(number)
        self._items.revoke(number, "silencedUntil")
        return self.incident(number)

    def events(
        self, limit: int = -1, before: int | None = None, *, metric: str | None = None
    ) -> list[BackendEvent]:
        return []

    def undelivered(self) -> dict[str, tuple[int, str | None]]:
        waiting = Counter(item.receiver for item in self._items.outbox())
        return {receiver: (count, None) for receiver, count in waiting.items()}

    def _open(self, number: int) -> Incident:
        incident = self.incident(number)
        if not incident.is_open:
            raise InvalidInput("incident", f"number {number} is over already")
        return incident
