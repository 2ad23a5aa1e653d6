"""No secret in what leaves: whatever an answer does to it before an error quotes it."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus, unquote

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kizami.core.collector import Response, read_count
from kizami.core.errors import ApiError
from kizami.core.messages import ScheduleMessage
from kizami.core.redaction import ENOUGH, HIDDEN, KNOWN, SHORTEST, Secrets
from kizami.core.slots import Window, parse_instant, shorten
from kizami.core.targets.target import SEED_TARGET

MESSAGE = ScheduleMessage(Window(parse_instant("2025-12-02T10:23:00Z"), parse_instant("2025-12-02T10:23:05Z")))

# How a secret may come back. Each is undone by the reader beside it, which is how a test can tell that it is gone.
Write = Callable[[str], str]
ESCAPES: dict[str, Write] = {
    "as it is": str,
    "capitals": str.upper,
    "small letters": str.lower,
    "percent": lambda text: quote(text, safe=""),
    "percent, small letters": lambda text: re.sub("%..", lambda hit: hit[0].lower(), quote(text, safe="")),
    "percent, only what must be": quote,
    "every byte in percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "a form": quote_plus,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with escaped slashes": lambda text: json.dumps(text)[1:-1].replace("/", r"\/"),
    "every character in JSON": lambda text: "".join(f"\\u{ord(character):04X}" for character in text),
    "Python": lambda text: repr(text)[1:-1],
    "Python, its bytes": lambda text: repr(text.encode())[2:-1],
    "HTML": html.escape,
    "every character in HTML": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "every character in HTML, hex": lambda text: "".join(f"&#x{ord(character):X};" for character in text),
    "its bytes taken for Latin-1": lambda text: text.encode().decode("latin-1"),
}
ENCODINGS: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: b64encode(data).decode(),
    "base64 for URLs": lambda data: urlsafe_b64encode(data).decode().rstrip("="),
    "base64 in lines": lambda data: encodebytes(data).decode(),
    "hex": bytes.hex,
    "hex in capitals": lambda data: data.hex().upper(),
}

# Characters of a basic plane, of headers and of what escapes are made of.
secrets = st.text(
    st.characters(min_codepoint=33, max_codepoint=0xFFFF, categories=("L", "N", "P", "S"))
    | st.sampled_from("""abcXYZ019-_.~+/=%&;#\\"'<>"""),
    min_size=SHORTEST,
    max_size=80,
)
ascii_secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=SHORTEST, max_size=80)
# Around it stands what can be no part of it.
around = st.sampled_from(["", " ", "Bearer ", "key=", "'", '"', "(", ")", ", ", "\n", "…", "応答 ", "? "])


@st.composite
def written(draw: st.DrawFn) -> tuple[str, str]:
    """A secret, and how it comes back: up to three escapes over each other, or one if no header can carry it."""
    secret = draw(ascii_secrets | secrets)
    text = secret
    most = 3 if secret.isascii() else 1
    for name in draw(st.lists(st.sampled_from(sorted(ESCAPES)), min_size=1, max_size=most)):
        text = ESCAPES[name](text)
    return secret, text


# **Feature: data-collection-scheduler, Property 17: An escaped secret is hidden, however it is escaped**
@given(written(), around, around)
@settings(max_examples=500)
@example(("a\\d&b", "a\\d&amp;b"), "", "")
@example(("%41%41", "%2541%2541"), "", "")
@example(("00<\\", "00&lt;\\"), "", "")
@example(("x\\nyz", "x\\\\nyz"), '"', '"')
@example(("00<\\", "00&lt;\\"), "", "'")
@example(("00<%", "00&lt;%"), "", "Bearer ")
@example(("0<0\\", "0%26lt%3B0%5C"), "", "'")
def test_an_escaped_secret_is_hidden(both: tuple[str, str], before: str, after: str) -> None:
    secret, text = both
    hidden = Secrets(secret).hide(before + text + after)
    assert text not in hidden
    assert HIDDEN in hidden
    shown = hidden.replace(HIDDEN, "", 1)
    assert len(shown) <= len(before) + len(after)


# **Feature: data-collection-scheduler, Property 18: Base64 and hex of a secret are hidden with all around it**
@given(secrets, st.sampled_from(sorted(ENCODINGS)), st.binary(max_size=7), st.binary(max_size=7))
@settings(max_examples=300)
def test_an_encoded_secret_is_hidden(secret: str, name: str, before: bytes, after: bytes) -> None:
    whole = ENCODINGS[name](before + secret.encode() + after)
    hidden = Secrets(secret).hide(f"<{whole.strip()}>")
    # A line of its own may hold what stood around the secret; else the whole word is gone.
    assert hidden == f"<{HIDDEN}>" or (name == "base64 in lines" and len(hidden) < len(f"<{HIDDEN}>") + 14)


# **Feature: data-collection-scheduler, Property 19: Eight characters of a secret are enough to hide it**
@given(ascii_secrets, st.integers(ENOUGH, 80), st.text(st.characters(codec="ascii"), max_size=30))
@settings(max_examples=200)
def test_the_beginning_of_a_secret_is_hidden(secret: str, length: int, before: str) -> None:
    part = secret[:length]
    assert part not in Secrets(secret).hide(f"{before} {part}…").replace(HIDDEN, "\0")


# **Feature: data-collection-scheduler, Property 20: An error about an answer shows no part of a header's secret**
@given(
    st.text("abcdefghijklmnopqrstuvwxyz0123456789-._~+/=", min_size=SHORTEST, max_size=80),
    st.sampled_from(["count", "from", "to"]),
    st.sampled_from(sorted(ESCAPES)),
    st.integers(0, 70),
)
@settings(max_examples=300)
def test_an_error_about_an_answer_shows_nothing_of_a_secret(
    secret: str, field: str, escape: str, before: int
) -> None:
    KNOWN.__init__()  # type: ignore[misc]
    KNOWN.add_header(f"Bearer {secret}")
    answer = {"from": "2025-12-02T10:23:00Z", "to": "2025-12-02T10:23:05Z", "count": 7}
    answer[field] = "!" * before + "Bearer " + ESCAPES[escape](secret)
    words = words_of(json.dumps(answer).encode())
    quoted = unquote(words.partition("'")[2].rpartition(" is not ")[0]).replace("Bearer ", "")
    assert re.fullmatch(r"!*(B|Be|Bea|Bear|Beare|Bearer)?\\*(\*\*\*'|\*{0,3}…)", quoted)


def words_of(body: bytes) -> str:
    try:
        read_count(Response(200, body), MESSAGE, SEED_TARGET)
    except ApiError as error:
        return str(error)
    raise AssertionError("a bad answer was taken for a good one")


def test_without_a_secret_a_text_stays_as_it_is() -> None:
    text = "%41 &amp; \\u0041 応答\n"
    assert Secrets().hide(text) == text
    assert shorten(text) == repr(text)
