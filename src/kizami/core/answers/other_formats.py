"""What an answer is that is not JSON, and what to do about it (pure)."""

from __future__ import annotations

import json
import re

_MEDIA_TYPE = re.compile(r"\s*([\w!#$&^.+-]{1,60}/[\w!#$&^.+-]{1,60})\s*(;.*)?", re.ASCII | re.DOTALL)
_LOOKED_AT = 16_384
_EMPTY = "is url right? If an empty answer means 0, have the API give status 204, and list it in status"
_NUMBER_ALONE = 'if the body is the number alone, set format = "text"; a number inside a text cannot be read'
_ASK_FOR_JSON = 'ask the API for JSON: headers = { Accept = "application/json" }, or a parameter for it'
_NO_PAGE = "is url right? A page is often a login, a proxy's notice or the site in place of its API"
_PROMETHEUS = "ask a Prometheus server for the value instead: see `kizami recipes prometheus`"
_NO_CALLBACK = "leave the parameter callback (JSONP) out of the request"
_ONE_PER_LINE = "ask the API for one JSON document, such as an array"
_BROKEN = "`kizami try` shows the answer; only the API can mend it"
_OTHER_ENCODING = "only UTF-8 is read: ask the API for it"

# Words, Content-Type and beginning of what is no JSON, with what helps; the first that fits.
_FORMATS = (
    ("HTML", r"text/html|application/xhtml\+xml", r"<(!doctype\s+html|html|head|body)\b", _NO_PAGE),
    ("XML", r"(application|text)/xml|[^;]+\+xml", r"<\?xml\b", _ASK_FOR_JSON),
    ("CSV", r"(text|application)/(csv|tab-separated-values)", r"(?!)", _ASK_FOR_JSON),
    ("YAML", r"(application|text)/(x-)?yaml", r"(?!)", _ASK_FOR_JSON),
    ("JavaScript", r"(application|text)/(x-)?javascript", r"[\w.]+\(\{", _NO_CALLBACK),
    ("Prometheus metrics", r"application/openmetrics-text", r"# (HELP|TYPE) \w", _PROMETHEUS),
)


def media_type(content_type: str) -> str:
    """`text/csv` of a Content-Type; nothing where there is none."""
    match = _MEDIA_TYPE.fullmatch(content_type)
    return match[1].lower() if match else ""


def explain_no_json(body: bytes | str, content_type: str, fault: str) -> tuple[str, str]:
    """The problem with a body, of which the JSON reader says that it is `fault`, and its remedy."""
    text = body[:_LOOKED_AT].decode("utf-8", "replace") if isinstance(body, bytes) else body[:_LOOKED_AT]
    text, kind = text.strip(), media_type(content_type)
    named = f" ({kind})" if kind else ""
    if not text:
        return f"the body is empty{named}", _EMPTY
    for words, types, beginning, remedy in _FORMATS:
        if re.match(rf"({types})$", kind) or re.match(beginning, text, re.IGNORECASE):
            return f"the body is not JSON but {words}{named}", remedy
    if fault.startswith("not UTF-8"):
        return f"the body is {fault}{named}", _OTHER_ENCODING
    if _is_json(text.partition("\n")[0]) and text[0] in "{[":
        return f"the body is not one JSON document but one per line{named}", _ONE_PER_LINE
    if kind.endswith(("/json", "+json")) or text[0] in "{[":
        return f"the body is {fault}{named}", _BROKEN
    if kind in ("", "text/plain"):
        return f"the body is not JSON but plain text{named}", f"is url right? {_NUMBER_ALONE}"
    return f"the body is not JSON{named}", f"is url right? If so, {_ASK_FOR_JSON}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
