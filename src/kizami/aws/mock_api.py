"""The Mock API on Lambda: an API Gateway proxy event goes to the responder, its response goes back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kizami.aws.invocation import log_invocation
from kizami.mock_api.requests_log import log_answer
from kizami.mock_api.responder import Parameters, Surroundings, respond
from kizami.mock_api.users import users_key


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request that came through a REST API with proxy integration."""
    log_invocation(context)
    method, path = event.get("httpMethod") or "GET", event.get("path") or "/"
    parameters = read_parameters(event)
    response = respond(method, path, parameters, Surroundings(datetime.now(UTC), users_key(os.environ)))
    log_answer(method, path, parameters, response)
    body = "" if method == "HEAD" else response.body.decode()
    return {"statusCode": response.status, "headers": dict(response.headers), "body": body}


def read_parameters(event: Mapping[str, Any]) -> Parameters:
    """All values of each query parameter; an event without the multi-value form has one a name."""
    if several := event.get("multiValueQueryStringParameters"):
        return {name: tuple(values or ()) for name, values in several.items()}
    single = event.get("queryStringParameters") or {}
    return {name: (value or "",) for name, value in single.items()}
