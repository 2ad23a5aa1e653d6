"""The dead man's switch on AWS: a URL that each run of the reconciler asks while kizami itself is well."""

from __future__ import annotations

import logging

from kizami import __version__
from kizami.aws.alerts.receiver_http import MAX_ANSWER_BYTES, require_taken, web_url
from kizami.aws.client.http_client import HttpRequest
from kizami.aws.invocation import TimeLeft
from kizami.core.errors import KizamiError
from kizami.core.targets.references import SecretReference

TIMEOUT_SECONDS = 5.0  # so long may it keep the messages waiting
LEAST_SECONDS = 15.0  # of the run must be left: its secret may have to be asked for as well
_HEADERS = {"User-Agent": f"kizami/{__version__}"}

log = logging.getLogger(__name__)


def beat(to: str | SecretReference | None, left: TimeLeft) -> None:
    """Ask the URL, if there is one for AWS and time to do so; what goes wrong is logged, without the URL."""
    if to is None or not is_on_aws(to) or left() < LEAST_SECONDS:
        return
    try:
        url = web_url(to, "heartbeat")
        require_taken(HttpRequest("GET", url, _HEADERS, TIMEOUT_SECONDS, MAX_ANSWER_BYTES), "GET of the heartbeat")
    except KizamiError as error:
        log.warning("the heartbeat is not taken", extra={"event": "heartbeat.refused", "reason": str(error)})


def is_on_aws(to: str | SecretReference) -> bool:
    """Whether it is asked from there: `env:` and `file:` are those of one machine."""
    return isinstance(to, str) or to.is_on_aws
