"""The APIs of the recipes on the loopback: a documented answer to every request, a token to who asks for one.

    with FaultServer(canned(documented("slack"), answer)) as server: ...

`server.requests` has what was asked; `without_tokens` leaves out the requests for a token.
"""

from __future__ import annotations

import gzip
import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fakes.fault_server import Behaviour, Exchange, SeenRequest, raw
from samples.recipe_answers import Documented, DocumentedAnswer, DocumentedRequest


def canned(api: Documented, answer: DocumentedAnswer) -> Behaviour:
    """This answer of the API's."""

    def behave(exchange: Exchange) -> None:
        if asks_for_token(api, exchange.request):
            assert api.token
            raw(json.dumps(api.token["body"]).encode())(exchange)
        else:
            _write(exchange, answer)

    return behave


def _write(exchange: Exchange, answer: DocumentedAnswer) -> None:
    headers = {"Content-Type": "application/json", **answer.headers}
    body = gzip.compress(answer.body) if headers.get("Content-Encoding") == "gzip" else answer.body
    lines = [f"HTTP/1.1 {answer.status} Documented", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    sent = b"" if exchange.request.method == "HEAD" else body
    exchange.write("\r\n".join([*lines, "", ""]).encode() + sent)


def asks_for_token(api: Documented, request: SeenRequest) -> bool:
    """Whether a request is the one for a token, before the API itself is asked."""
    return api.token is not None and urlsplit(request.target).path == api.token["path"]


def without_tokens(api: Documented, requests: list[SeenRequest]) -> list[SeenRequest]:
    """The requests to the API itself."""
    return [request for request in requests if not asks_for_token(api, request)]


def as_documented(seen: SeenRequest, wanted: DocumentedRequest) -> DocumentedRequest:
    """What was seen in the form in which it is documented, with no more headers than are."""
    path, _, query = seen.target.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    pairs.sort(key=lambda pair: wanted.query.index(pair) if pair in wanted.query else -1)
    headers = {name: value for name, value in seen.headers.items() if name in wanted.headers}
    return DocumentedRequest(seen.method, path, pairs, headers, _body(seen.body.decode(), wanted.body))


def _body(text: str, wanted: Any) -> Any:
    if not text:
        return None
    return text if isinstance(wanted, str) else json.loads(text)
