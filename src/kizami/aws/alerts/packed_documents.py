"""Documents of any size in a partition of the metric table: packed in their item or, if they are long, in parts.

    parts of a new version ─▶ the head that names it, if it is still as it was seen ─▶ parts of others are removed

So a head never names parts that are not there yet. Who dies before the head is written leaves parts that nobody
names; the next one who writes the document removes them. Who reads while parts are removed reads the head again.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from math import inf

from kizami.aws.client import machine
from kizami.aws.client.json_client import Fields
from kizami.aws.dynamodb import change_item, read_pages
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import StoreError

PART_BYTES = 300_000  # of the 400 KB that an item may have
_PARTS = "part/"
_READ_AGAIN = 5  # somebody would have to write that often while one reads


class PackedDocuments:
    """The documents of a partition, each with a head of other attributes; reads are consistent. StoreError."""

    def __init__(self, table: str, partition: str, time_left: TimeLeft = lambda: inf) -> None:
        self._table = table
        self._partition = partition
        self._time_left = time_left

    def head(self, key: str) -> Fields | None:
        """The item of that key."""
        return next(self.query("slotTime = :key", {":key": {"S": key}}), None)

    def read(self, head: Fields) -> tuple[Fields, str] | None:
        """A head as it is by now, and its document; None if it is gone."""
        found: Fields | None = head
        for _ in range(_READ_AGAIN):
            if found is None:
                return None
            if (text := self._text(found)) is not None:
                return found, text
            found = self.head(head["slotTime"]["S"])
        raise StoreError(f"the item {head['slotTime']['S']} lacks parts of its document")

    def _text(self, head: Fields) -> str | None:
        """The document; None if its parts are no longer there."""
        if "document" in head:
            kept = head["document"]
            return kept["S"] if "S" in kept else _unpack(kept["B"])  # the state was once kept as it is
        prefix = _part_key(head["slotTime"]["S"], head["version"]["S"])
        parts = [item["part"]["B"] for item in self.query(*_begins_with(prefix))]
        return _unpack(*parts) if len(parts) == int(head["parts"]["N"]) else None

    def write(self, key: str, text: str, attributes: Fields, seen: Fields | None) -> bool:
        """Write head and document where the head is of the version that it was `seen` with; whether it was."""
        parts, version = _pack(text), _next_version(seen)
        if len(parts) == 1:
            held, removed = {"document": {"B": parts[0]}}, "parts"
        else:
            self._put_parts(key, version, parts)
            held, removed = {"parts": {"N": str(len(parts))}}, "document"
        written = {**attributes, "version": {"S": version}, **held}
        is_ours = self._update(key, written, removed, seen) or self._is_written(key, version)
        self._remove_parts(key, version, is_ours=is_ours)
        return is_ours

    def set(self, key: str, attributes: Fields) -> None:
        """Change attributes of a head and nothing else of it."""
        self._change("UpdateItem", {"Key": self.key(key), **_assignments(attributes)})

    def query(self, condition: str, values: Fields, **options: object) -> Iterator[Fields]:
        """The items whose keys meet a condition."""
        request = {
            "TableName": self._table,
            "KeyConditionExpression": f"metricName = :partition AND {condition}",
            "ExpressionAttributeValues": {":partition": {"S": self._partition}, **values},
            "ConsistentRead": True,
            **options,
        }
        for page in read_pages(self._time_left, "Query", request):
            yield from page.get("Items", ())

    def key(self, key: str) -> Fields:
        """The key of an item as DynamoDB wants it."""
        return {"metricName": {"S": self._partition}, "slotTime": {"S": key}}

    def _put_parts(self, key: str, version: str, parts: list[str]) -> None:
        for place, part in enumerate(parts):
            item = {**self.key(f"{_part_key(key, version)}{place:06}"), "part": {"B": part}}
            self._change("PutItem", {"Item": item})

    def _update(self, key: str, attributes: Fields, removed: str, seen: Fields | None) -> bool:
        request = _assignments(attributes)
        request["UpdateExpression"] += " REMOVE #removed"
        request["ExpressionAttributeNames"]["#removed"] = removed
        request["ConditionExpression"] = "attribute_not_exists(version)" if seen is None else "version = :seen"
        if seen is not None:
            request["ExpressionAttributeValues"][":seen"] = seen
        return self._change("UpdateItem", {"Key": self.key(key), **request})

    def _is_written(self, key: str, version: str) -> bool:
        """Whether an attempt was carried out whose answer got lost."""
        head = self.head(key)
        return head is not None and head.get("version") == {"S": version}

    def _remove_parts(self, key: str, version: str, *, is_ours: bool) -> None:
        """Remove the parts of a version that was not taken; of one that was, those of all that it came before.

        What was begun upon a version that is gone is refused, and a version after ours has a higher number.
        """
        found = self.query(*_begins_with(f"{_PARTS}{key}/"), ProjectionExpression="slotTime")
        for part in [item["slotTime"]["S"] for item in found]:
            theirs = part.rsplit("/", 2)[1]
            is_done_with = (
                theirs != version and _number(theirs) <= _number(version) if is_ours else theirs == version
            )
            if is_done_with:
                self._change("DeleteItem", {"Key": self.key(part)})

    def _change(self, operation: str, request: Fields) -> bool:
        return change_item(self._time_left, operation, {"TableName": self._table, **request})


def _pack(text: str) -> list[str]:
    packed = zlib.compress(text.encode())
    return [b64encode(packed[start : start + PART_BYTES]).decode() for start in range(0, len(packed), PART_BYTES)]


def _unpack(*parts: str) -> str:
    return zlib.decompress(b"".join(map(b64decode, parts))).decode()


def _next_version(seen: Fields | None) -> str:
    """One higher than the one before, and nobody else's: two may write at once."""
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
