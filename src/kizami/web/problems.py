"""How the API says no: RFC 9457 problem details, one clear sentence each."""

from __future__ import annotations

import logging
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from kizami.backend.targets import UnknownTarget
from kizami.core.errors import InvalidInput, KizamiError

log = logging.getLogger(__name__)


def problem(status: int, detail: str, **fields: str) -> JSONResponse:
    """The answer that says what is wrong; further members name the place."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **fields,
    }
    return JSONResponse(body, status, media_type="application/problem+json")


def status_of(error: Exception) -> int:
    """The status of an error: the asker's fault, or the backend's."""
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, UnknownTarget):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, InvalidInput):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, KizamiError) else HTTPStatus.INTERNAL_SERVER_ERROR


def detail_of(error: Exception) -> str:
    """What may be said about an error; of one that nobody foresaw, nothing."""
    if isinstance(error, HTTPException):
        return error.detail
    return str(error) if isinstance(error, KizamiError) else "an unexpected error; the log has its details"


async def answer_with_problem(request: Request, error: Exception) -> JSONResponse:
    """The exception handler of every path but the page."""
    if status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.exception("a request failed", extra={"event": "request.failed", "path": request.url.path})
    response = problem(status_of(error), detail_of(error), **_place(error))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


def _place(error: Exception) -> dict[str, str]:
    return {"parameter": error.field} if isinstance(error, InvalidInput) else {}
