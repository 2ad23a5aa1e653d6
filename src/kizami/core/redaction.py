"""Secrets kept out of texts: whatever the process has learned as a secret leaves it in no error and no log line.

A polled API can send a header back in its answer, and an error quotes that answer. So each secret is made known
where it is read (`KNOWN`), and looked for where a text is made: before `shorten` cuts a value, in what an error
says, and once more in every log line.

It is found as it is, in other capital and small letters, escaped (percent, JSON, Python, HTML; up to four times
over), in hex, and in base64 of either alphabet with anything before and after it. Its first eight characters are
enough: a text may have been cut. A secret of fewer than four is not looked for: it would be in every other word.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

HIDDEN = "***"
SHORTEST = 4
ENOUGH = 8  # so many characters from its beginning give a secret away
_LAYERS = 4  # of escapes: JSON in JSON in a URL
_KINDS = "%\\&"  # what the kinds of escapes begin with
_MOST_READINGS = 20  # of one text, whatever an API makes of it
_DEPTH = 8  # of lists in lists

# Compiled when the first secret is there: most functions on AWS never have one.
_SCHEME = r"(?i)(?:bearer|basic|digest|token|api-?key|key|hmac|negotiate|oauth|bot) +"
_LISTED = r'=\s*"?([^\s,;"]{8,})'  # a cookie's value, a parameter of a scheme
_USERINFO = r"(?s)(?:[^:/?#]*://)?(?P<user>[^:]*):?(?P<password>.*)@"
_ESCAPE = (
    r"%([0-9A-Fa-f]{2})"
    r"|\\[uU]([dD][89abAB][0-9A-Fa-f]{2})\\[uU]([dD][c-fC-F][0-9A-Fa-f]{2})"
    r"|\\(?:U([0-9A-Fa-f]{8})|[uU]([0-9A-Fa-f]{4})|[xX]([0-9A-Fa-f]{2})|([0-3][0-7]{2}))"
    r"|(&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});)"
    r"|\\([\"'/\\])"
    r"|\\[nrt]|[\x00-\x1f\x7f]+"  # what may stand between the lines of base64
)
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")
_SAME = str.maketrans("+-_", "  /")  # a space is + in a form; base64 has two alphabets


class _Reading(NamedTuple):
    """A text with one layer of escapes more or less: a character for each byte, and where in the text it stood."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


class _Form(NamedTuple):
    """One way of writing a secret."""

    text: str
    is_encoded: bool = False


class Secrets:
    """Secrets of at least `shortest` characters, and texts without them; any thread may add one at any time."""

    def __init__(self, *secrets: str, shortest: int = SHORTEST) -> None:
        self._shortest = shortest
        self._known: set[str] = set()
        # By how many characters tell that a form may begin: then by those characters.
        self._forms: dict[int, dict[str, list[_Form]]] = {length: {} for length in range(1, ENOUGH + 1)}
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """From now on `secret` is hidden."""
        if secret in self._known or len(secret) < self._shortest:
            return
        for form in set(_forms_of(secret)):
            beginning = form.text[:ENOUGH]
            if len(beginning) >= (SHORTEST if form.is_encoded else self._shortest):
                self._forms[len(beginning)].setdefault(beginning, []).append(form)
        self._known.add(secret)

    def add_header(self, value: str) -> None:
        """From now on what a header's value has of secrets is hidden, the whole and its parts."""
        for secret in _secrets_in(value):
            self.add(secret)

    def forget_header(self, value: str) -> None:
        """What a header's value had of secrets is worthless now, and would only gather here."""
        for secret in _secrets_in(value):
            self.forget(secret)

    def forget(self, secret: str) -> None:
        """`secret` is worthless now."""
        if secret not in self._known:
            return
        self._known.discard(secret)
        for form in set(_forms_of(secret)):
            forms = self._forms[len(form.text[:ENOUGH])]
            kept = list(
                forms.get(form.text[:ENOUGH], ())
            )  # another thread may be looking through the one that is there
            if form in kept:
                kept.remove(form)
                forms[form.text[:ENOUGH]] = kept

    def add_proxies(self, environment: Mapping[str, str]) -> None:
        """From now on the passwords of the proxies that an environment names are hidden; libcurl quotes them."""
        for name, value in environment.items():
            if name.lower().endswith("_proxy") and (found := re.match(_USERINFO, value)):
                self.add(found["password"])
                self.add(unquote(found["password"]))
                self.add(f"{found['user']}:{found['password']}")  # which goes out in base64

    def hide(self, text: str, mark: str = HIDDEN) -> str:
        """`text` with `***`, or another mark, in place of every secret."""
        if not self._known:
            return text
        spans: list[tuple[int, int]] = []
        for reading in _readings(text):
            spans += self._find(reading, text)
        return _without(text, spans, mark) if spans else text

    def hide_in(self, value: object, depth: int = 0) -> object:
        """`value` with every text in it cleared, before the escapes of a format make it look different."""
        if not self._known or value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.hide(value)
        if depth < _DEPTH and isinstance(value, Mapping):
            return {self._name(name): self.hide_in(item, depth + 1) for name, item in value.items()}
        if depth < _DEPTH and isinstance(value, list | tuple):
            return [self.hide_in(item, depth + 1) for item in value]
        shown = str(value)
        return value if self.hide(shown) == shown else self.hide(shown)

    def _name(self, name: object) -> object:
        return self.hide(name) if isinstance(name, str) else name

    def _find(self, reading: _Reading, original: str) -> Iterator[tuple[int, int]]:
        text = _fold(reading.text)
        for length, forms in self._forms.items():
            if not forms:
                continue
            for at in range(len(text) - length + 1):
                if (beginning := text[at : at + length]) in forms:
                    for form in forms[beginning]:
                        start, end = reading.starts[at], reading.ends[at + _shared(text, at, form.text) - 1]
                        yield _widened(original, start, end) if form.is_encoded else (start, end)


KNOWN = Secrets()  # those of this process


def _secrets_in(header: str) -> Iterator[str]:
    scheme = re.match(_SCHEME, header)
    credentials = header[scheme.end() :] if scheme else header
    yield credentials
    yield from (match[1] for match in re.finditer(_LISTED, credentials))
    if not scheme:
        yield credentials.partition(" ")[2].strip()
    elif scheme[0].strip().lower() == "basic":
        yield from _name_and_password(credentials)


def _name_and_password(credentials: str) -> Iterator[str]:
    try:
        both = b64decode(credentials).decode()
    except ValueError:
        return
    yield both
    yield both.partition(":")[2]


def _forms_of(secret: str) -> Iterator[_Form]:
    for written in {secret, secret.lower(), secret.upper()}:
        # Who takes the bytes of a header for Latin-1, as many servers do, sends each of them back as a character.
        for text in {written, _utf8(written)}:
            yield from (_Form(_fold(reading.text)) for reading in _readings(text))
    for data in _bytes_of(secret):
        yield _Form(_fold(data.decode("latin-1")))
        yield _Form(data.hex(), is_encoded=True)
        yield from (_Form(_fold(core), is_encoded=True) for core in _base64_cores(data))


def _bytes_of(secret: str) -> Iterator[bytes]:
    yield secret.encode("utf-8", "surrogatepass")
    if not secret.isascii() and max(secret) < "\u0100":
        yield secret.encode("latin-1")


def _base64_cores(data: bytes) -> Iterator[str]:
    """What base64 makes of `data` alone, at each of its three places in a group, whatever stands around it."""
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        yield encoded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]


def _fold(text: str) -> str:
    return text.lower().translate(_SAME)


def _readings(text: str) -> Iterator[_Reading]:
    """The text as it is, then with one layer of escapes after the other taken off.

    Of every kind at once, and of all but one: where a secret ends in a backslash and is escaped in another way,
    that backslash and what stands after it look like an escape, and are none.
    """
    waiting, seen = [(0, _in_bytes(text))], set[str]()
    while waiting and len(seen) < _MOST_READINGS:
        layer, reading = waiting.pop()
        if reading.text in seen:
            continue
        seen.add(reading.text)
        yield reading
        if layer < _LAYERS:
            found = [_unescaped(reading, kept) for kept in (*_kept_kinds(reading.text), "")]
            waiting += [(layer + 1, below) for below in found if below is not None]


def _kept_kinds(text: str) -> list[str]:
    kinds = [kind for kind in _KINDS if kind in text]
    return kinds if len(kinds) > 1 else []


def _in_bytes(text: str) -> _Reading:
    if text.isascii():
        return _Reading(text, range(len(text)), range(1, len(text) + 1))
    pieces = [_utf8(character) for character in text]
    places = [at for at, piece in enumerate(pieces) for _ in piece]
    return _Reading("".join(pieces), places, [at + 1 for at in places])


def _utf8(text: str) -> str:
    """The bytes of a text, a character for each."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _unescaped(reading: _Reading, kept: str) -> _Reading | None:
    """Without one layer of escapes but those that begin with `kept`; None if there is nothing to take off."""
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for match in re.finditer(_ESCAPE, reading.text):
        first, past = match.span()
        if match[0][0] == kept:
            continue
        piece = _unescape(match)
        pieces += reading.text[at:first], piece
        starts += [*reading.starts[at:first], *[reading.starts[first]] * len(piece)]
        ends += [*reading.ends[at:first], *[reading.ends[past - 1]] * len(piece)]
        at = past
    if not at:
        return None
    pieces.append(reading.text[at:])
    return _Reading("".join(pieces), [*starts, *reading.starts[at:]], [*ends, *reading.ends[at:]])


def _unescape(match: re.Match[str]) -> str:
    percent, high, low, long, short, byte, octal, entity, quoted = match.groups()
    if code := percent or byte:
        return chr(int(code, 16))
    if high:
        return _utf8(chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)))
    if code := short or long:
        return _utf8(chr(min(int(code, 16), 0x10FFFF)))
    if octal:
        return chr(int(octal, 8))
    return _unescape_entity(entity) if entity else quoted or ""


def _unescape_entity(entity: str) -> str:
    from html import unescape  # hardly any text needs its long table of names, and a Lambda's start does

    return _utf8(unescape(entity))


def _shared(text: str, at: int, form: str) -> int:
    """How much of `form` stands at that place."""
    length = 0
    while length < len(form) and text[at + length : at + length + 1] == form[length]:
        length += 1
    return length


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    """The whole word of hex or base64: in base64 its neighbours have bits of the secret too."""
    while start > 0 and text[start - 1] in _BASE64:
        start -= 1
    while end < len(text) and text[end] in _BASE64:
        end += 1
    return start, end


def _without(text: str, spans: Iterable[tuple[int, int]], mark: str) -> str:
    pieces: list[str] = []
    shown_to = 0
    for start, end in sorted(spans):
        if start > shown_to or not pieces:
            pieces += text[shown_to:start], mark
        shown_to = max(shown_to, end)
    return "".join([*pieces, text[shown_to:]])
