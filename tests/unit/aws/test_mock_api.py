"""The Mock API function: API Gateway proxy events in, proxy results out, and what it logs."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from aws_here.lambda_events import log_lines
from kizami.aws.mock_api import handler

FROM, TO = "2025-12-02T10:23:00Z", "2025-12-02T10:23:05Z"
CONTEXT = SimpleNamespace(aws_request_id="8f5c5c0a")


def proxy_event(path: str = "/response_count", method: str = "GET", /, **parameters: list[str]) -> dict[str, Any]:
    """What a REST API sends: the stage is in requestContext, not in path; no parameters are null."""
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": {"accept": "*/*"},
        "queryStringParameters": {name: values[-1] for name, values in parameters.items()} or None,
        "multiValueQueryStringParameters": parameters or None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {"stage": "prod", "path": f"/prod{path}", "httpMethod": method},
        "body": None,
        "isBase64Encoded": False,
    }


def test_a_window_gets_its_count() -> None:
    result = handler(proxy_event(**{"from": [FROM], "to": [TO]}), CONTEXT)
    assert result.keys() == {"statusCode", "headers", "body"}
    assert (result["statusCode"], result["headers"]) == (200, {"content-type": "application/json"})
    assert json.loads(result["body"]) == {"from": FROM, "to": TO, "count": 1}


def test_health_without_parameters_is_ok() -> None:
    result = handler(proxy_event("/health"), CONTEXT)
    assert (result["statusCode"], json.loads(result["body"])) == (200, {"status": "ok"})


def test_a_repeated_parameter_is_seen_although_the_single_value_form_hides_it() -> None:
    result = handler(proxy_event(**{"from": [FROM, FROM], "to": [TO]}), CONTEXT)
    assert result["statusCode"] == 400
    assert json.loads(result["body"])["error"] == "from: is given 2 times; give it once"


def test_an_event_with_only_the_single_value_form_is_read() -> None:
    event = proxy_event(**{"from": [FROM], "to": [TO]})
    del event["multiValueQueryStringParameters"]
    assert handler(event, CONTEXT)["statusCode"] == 200


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        {"queryStringParameters": {"from": None, "to": None}},
        {"multiValueQueryStringParameters": {"from": None, "to": None}},
    ],
)
def test_null_parameters_are_400_and_no_exception(nothing: dict[str, Any]) -> None:
    result = handler(proxy_event() | nothing, CONTEXT)
    assert (result["statusCode"], json.loads(result["body"])["parameter"]) == (400, "from")


@pytest.mark.parametrize("event", [{}, {"path": None, "httpMethod": None}, {"source": "aws.events"}])
def test_an_event_that_is_no_request_is_404_and_no_exception(event: dict[str, Any]) -> None:
    assert handler(event, None)["statusCode"] == 404


def test_another_method_is_405_with_an_allow_header() -> None:
    result = handler(proxy_event("/health", "POST"), CONTEXT)
    assert (result["statusCode"], result["headers"]["allow"]) == (405, "GET, HEAD")


def test_head_has_no_body() -> None:
    result = handler(proxy_event("/health", "HEAD"), CONTEXT)
    assert (result["statusCode"], result["body"]) == (200, "")


def test_requirement_7_4_mock_api_logs_each_request_with_timestamp_and_parameters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler(proxy_event(**{"from": [FROM], "to": [TO]}), CONTEXT)
    (line,) = log_lines(capsys)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "INFO",
        "logger": "kizami.mock_api",
        "event": "request.answered",
        "message": "request answered",
        "method": "GET",
        "path": "/response_count",
        "parameters": {"from": [FROM], "to": [TO]},
        "status": 200,
        "requestId": "8f5c5c0a",
    }


def test_requirement_7_4_mock_api_logs_a_refused_request_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler(proxy_event(**{"from": ["nonsense\n" * 50], "to": [TO]}), CONTEXT)
    (line,) = log_lines(capsys)
    assert (line["level"], line["status"]) == ("WARN", 400)
    assert line["error"].startswith("from: 'nonsense")
    assert line["parameters"] == {"from": [("nonsense\n" * 50)[:60]], "to": [TO]}


def test_parameters_other_than_the_window_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    handler(proxy_event("/health", signature=["s3cret"]), CONTEXT)
    (line,) = log_lines(capsys)
    assert "s3cret" not in json.dumps(line)
    assert line["parameters"] == {}


def test_the_function_logs_json_and_imports_only_the_standard_library() -> None:
    program = f"""
import sys
from kizami.aws.mock_api import handler
handler({proxy_event("/health")!r}, None)
imported = {{name.partition(".")[0] for name in sys.modules if not name.startswith("_")}}
print(sorted(imported - sys.stdlib_module_names))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.stdout == "['kizami']\n"
    assert json.loads(result.stderr)["event"] == "request.answered"
