"""Lists in pages: a bounded page of items, a cursor to the next, and all pages in a row as CSV."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kizami.backend.columns import RecordColumns
from kizami.core.epoch import InstantTexts
from kizami.core.errors import InvalidInput

DEFAULT_LIMIT = 100
MAX_LIMIT = 5000
MAX_RECORDS = 20_000  # a day of one target that is polled every five seconds

Item = Mapping[str, Any]
Cursor = Sequence[Any]


@dataclass(frozen=True, slots=True)
class RecordItems:
    """The items of a list of records, of which there may be thousands: written without a look at each."""

    pieces: Sequence[RecordColumns]

    def __iter__(self) -> Iterator[Item]:
        return iter(json.loads(b"[%b]" % b"".join(self.json_pieces())))

    def json_pieces(self) -> list[bytes]:
        """The items with commas between them, in pieces."""
        texts = InstantTexts()
        pieces = [piece.json_objects(",", texts) for piece in self.pieces if piece]
        return [*pieces[:-1], pieces[-1].removesuffix(b",")] if pieces else []


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the items; `next` is where the following page begins, None after the last one."""

    items: Sequence[Item] | RecordItems
    next: Cursor | None = None

    def json_body(self) -> bytes:
        """The page as it is answered; put together in one go, for it may be half a megabyte."""
        following = json.dumps(None if self.next is None else write_cursor(self.next))
        if isinstance(self.items, RecordItems):
            items = self.items.json_pieces()
        else:
            whole = json.dumps(list(self.items), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            items = [whole[1:-1].encode()]
        return b"".join((b'{"items":[', *items, f'],"next":{following}}}'.encode()))


def write_cursor(cursor: Cursor) -> str:
    """The cursor as a client hands it back; it should not look inside."""
    return base64.urlsafe_b64encode(json.dumps(list(cursor)).encode()).decode().rstrip("=")


def read_cursor(text: str | None, *kinds: type) -> Cursor | None:
    """The cursor that `write_cursor` wrote, with values of these kinds; InvalidInput for anything else."""
    if not text:
        return None
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        cursor = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        cursor = None
    if not isinstance(cursor, list) or [type(value) for value in cursor] != list(kinds):
        raise InvalidInput("cursor", "is not one that this list gave out")
    return cursor


@dataclass(frozen=True, slots=True)
class CsvPage:
    """The lines of a page; `next` is the cursor of the following one."""

    text: str
    next: str | None


def csv_page(page: Page, columns: Sequence[str]) -> CsvPage:
    """A page as lines of CSV."""
    text = "".join(csv_line([item[column] for column in columns]) for item in page.items)
    return CsvPage(text, None if page.next is None else write_cursor(page.next))


ReadCsvPage = Callable[[str], Awaitable[CsvPage]]


async def csv_of(first: CsvPage, read_page: ReadCsvPage, columns: Sequence[str]) -> AsyncIterator[str]:
    """All lines from the first page to the last, below a heading, one piece of text a page."""
    yield csv_line(columns)
    page = first
    while True:
        yield page.text
        if page.next is None:
            return
        page = await read_page(page.next)


def csv_line(values: Sequence[Any]) -> str:
    """One line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(_inert(value) for value in values)
    return line.getvalue()


def _inert(value: Any) -> Any:
    """A spreadsheet would take a text that begins like this for a formula."""
    if isinstance(value, list):
        return _inert(", ".join(map(str, value)))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
