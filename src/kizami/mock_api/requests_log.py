"""One log line for each request to the mock API, the same on Lambda and on a socket (Requirement 7.4)."""

from __future__ import annotations

import json
import logging

from kizami.mock_api.responder import MockResponse, Parameters

logger = logging.getLogger("kizami.mock_api")


def log_answer(method: str, path: str, parameters: Parameters, response: MockResponse) -> None:
    """Log what was asked and answered; of the parameters only the window, any other may be somebody's secret."""
    level = logging.INFO if response.status == 200 else logging.WARNING
    if not logger.isEnabledFor(level):
        return
    method, path = method[:20], path[:200]
    window = {name: [value[:60] for value in parameters[name]] for name in ("from", "to") if name in parameters}
    details = {
        "event": "request.answered",
        "method": method,
        "path": path,
        "parameters": window,
        "status": response.status,
    }
    if level == logging.WARNING:
        details["error"] = json.loads(response.body)["error"]
    logger.log(level, "request answered", extra=details)
