"""What is polled: a Target and its checks (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from kizami.core.answers.answer import ORIGINAL_ANSWER, Answer
from kizami.core.errors import InvalidInput
from kizami.core.requests.urls import is_plain, require_path, require_target_url
from kizami.core.slots import DEFAULT_INTERVAL_SECONDS, require_interval, shorten
from kizami.core.targets.references import SecretReference

if TYPE_CHECKING:
    from kizami.core.access.auth import Auth
    from kizami.core.access.tls import Tls
    from kizami.core.requests.query import Query
    from kizami.core.requests.request_template import RequestTemplate

DEFAULT_METRIC = "ai_response_count"
DEFAULT_PATH = "/response_count?from={from}&to={to}"
DEFAULT_TIMEOUT_SECONDS = 10.0
DEFAULT_CATCH_UP_SECONDS = 24 * 3600
DEFAULT_MAX_BODY_BYTES = 1024 * 1024
MOCK_API_URL = "http://127.0.0.1:3000"

MOST_BODY_BYTES = 16 * 1024 * 1024
MAX_LAG_SECONDS = 31 * 86_400
LEAST_KEEP_SECONDS = 86_400
MAX_CATCH_UP_SECONDS = 2 * MAX_LAG_SECONDS
# Up to here a lag is within the default of catch_up; a longer one is added to it.
_SHORT_LAG_SECONDS = 3600

_METRIC = re.compile(r"\w[\w.:/-]{0,127}", re.ASCII)
_SEPARATORS = str.maketrans(".:/-", "____")
# Fillers and selectors that Unicode counts among the parts of a word although they show nothing.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


class Timed(Protocol):
    """What the plan and coverage ask of a target; a store's memory of a former one has it too."""

    @property
    def name(self) -> str: ...
    @property
    def interval_seconds(self) -> int: ...
    @property
    def lag_seconds(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Target:
    """One polled API: what to ask, how often, and what is believed of its answer.

    At tick t the window [t - lag, t - lag + interval) is asked for. `lag` below `interval` asks before
    the window has ended, so a real API can only give a partial count, which is then kept for ever.
    Without `backfill` its API can only say "now": a slot is asked for until the next one is due, and never later.
    """

    name: str = DEFAULT_METRIC
    url: str = MOCK_API_URL
    path: str = DEFAULT_PATH
    interval_seconds: int = DEFAULT_INTERVAL_SECONDS
    lag_seconds: int = 0
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    headers: Mapping[str, str | SecretReference] = field(default_factory=dict, hash=False)
    enabled: bool = True
    catch_up_seconds: int = DEFAULT_CATCH_UP_SECONDS
    keep_seconds: int | None = None  # for ever
    keep_totals_seconds: int | None = None  # likewise
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    backfill: bool = True
    answer: Answer = ORIGINAL_ANSWER
    auth: Auth | None = None
    tls: Tls | None = None
    proxy: str | SecretReference | None = None
    query: Query = field(default_factory=dict, hash=False)
    body: str | None = None
    method: str = "GET"
    # Made of the fields above; None where {from} and {to} in the path are all there is.
    template: RequestTemplate | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_metric(self.name, "name")
        for metric in self.metrics if self.answer.values else ():
            require_metric(metric, "values")
        require_target_url(self.url)
        require_path(self.path)
        require_interval(self.interval_seconds)
        if self.lag_seconds % self.interval_seconds or not 0 <= self.lag_seconds <= MAX_LAG_SECONDS:
            raise InvalidInput(
                "lag",
                f"{self.lag_seconds} s is not a multiple of the interval ({self.interval_seconds} s) "
                f"from 0 to {MAX_LAG_SECONDS // 86_400}d",
            )
        if not 0.1 <= self.timeout_seconds <= 300:
            raise InvalidInput("timeout", f"{self.timeout_seconds:g} s is not between 0.1 and 300 s")
        if not 0 <= self.catch_up_seconds <= MAX_CATCH_UP_SECONDS:
            raise InvalidInput("catch_up", f"must be from 0 (off) to {MAX_CATCH_UP_SECONDS // 86_400}d")
        if 0 < self.catch_up_seconds <= self.lag_seconds:
            raise InvalidInput("catch_up", "must be longer than lag (no slot is due before), or 0 for off")
        require_keep(self)
        if not 1 <= self.max_body_bytes <= MOST_BODY_BYTES:
            raise InvalidInput("max_body", f"must be from 1 to {MOST_BODY_BYTES // 2**20}MiB")
        if self.headers:
            from kizami.core.requests.headers import require_headers  # the seeds' one target never needs it

            require_headers(self.headers)
        if self.auth and any(name.lower() == "authorization" for name in self.headers):
            raise InvalidInput("auth", "stands beside headers.Authorization; keep one of the two")
        if self.tls and not self.url.lower().startswith("https:"):
            raise InvalidInput("tls", "needs a url that begins with https://")
        object.__setattr__(self, "template", self._compile())
        require_time(self)

    def _compile(self) -> RequestTemplate | None:
        says_more = self.query or self.body is not None or self.method != "GET" or "{" in self.url
        if not says_more and is_plain(self.path):
            return None
        from kizami.core.requests.request_template import compile_request  # likewise

        return compile_request(self)

    @property
    def sent_headers(self) -> Mapping[str, str | SecretReference]:
        """The headers with those that its body brings along."""
        return self.template.headers if self.template else self.headers

    def references(self) -> Iterator[tuple[str, SecretReference]]:
        """Every secret that it needs, each with the setting that refers to it."""
        for name, value in self.headers.items():
            if isinstance(value, SecretReference):
                yield f"headers.{name}", value
        for name, reference in self.template.secret_query if self.template else ():
            yield f"query.{name}", reference
        if self.auth or self.tls or self.proxy:
            from kizami.core.access.references import access_references  # likewise

            yield from access_references(self)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its metrics: its own or, with several values, one of each."""
        return tuple(f"{self.name}/{value}" for value, _ in self.answer.values) or (self.name,)

    def of_each_metric(self) -> tuple[Target, ...]:
        """It as the target of each of its metrics alone: what is due, stored and shown is so for each of them."""
        if not self.answer.values:
            return (self,)
        values = zip(self.metrics, self.answer.values, strict=True)
        return tuple(
            replace(self, name=name, answer=replace(self.answer, values=(), count=value, zero_if_missing=None))
            for name, (_, value) in values
        )

    @property
    def asks_too_early(self) -> bool:
        """Whether the window is asked for before it has ended (right for the mock API only)."""
        return self.lag_seconds < self.interval_seconds

    @property
    def is_mock(self) -> bool:
        """Whether it is the mock API where `kizami up` and `kizami mock` serve it."""
        base = self.url.partition("/response_count?")[0].rstrip("/")
        return base in (MOCK_API_URL, MOCK_API_URL.replace("127.0.0.1", "localhost"))

    @property
    def timing_problem(self) -> str | None:
        """What is wrong with asking a real API too early, and what to write instead; None if all is well."""
        if not self.asks_too_early or self.is_mock or not self.backfill:
            return None
        return (
            f"{self.name}: lag {self.lag_seconds}s is shorter than the interval, so a window is asked for before "
            f'it has ended and its count stays partial; set lag = "{self.interval_seconds}s" or more'
        )


def default_catch_up_seconds(lag_seconds: int) -> int:
    """A day of slots: a lag above an hour would leave few of them."""
    return DEFAULT_CATCH_UP_SECONDS + (lag_seconds if lag_seconds > _SHORT_LAG_SECONDS else 0)


def require_keep(target: Target) -> None:
    """InvalidInput if what is stored would be gone before it is any use, or its totals before it."""
    keep, totals = target.keep_seconds, target.keep_totals_seconds
    if keep is not None and keep < LEAST_KEEP_SECONDS + target.lag_seconds:
        raise InvalidInput("keep", "must be at least a day longer than the lag")
    if totals is not None and keep is None:
        raise InvalidInput("keep_totals", "needs keep: without it all is kept for ever")
    if totals is not None and keep is not None and totals < keep:
        raise InvalidInput("keep_totals", "must not be shorter than keep")


def require_time(target: Target) -> None:
    """InvalidInput if all its requests are the same, though it says that a past slot can be asked for."""
    template = target.template
    if target.backfill and not (template.has_time if template else "{" in target.path):
        raise InvalidInput(
            "path",
            "must have a time, {from} or {to}, as may url, query and body; if the API only tells of now, set "
            "backfill = false",
        )


def require_metric(name: object, place: str = "metric") -> str:
    """`name` if it can name a metric: letters of any script, digits and `_ . : / -`, at most 128."""
    if not isinstance(name, str) or not (_METRIC.fullmatch(name) or _is_unicode_metric(name)):
        raise InvalidInput(
            place, f"{shorten(name)} is not a metric name (1 to 128 letters, digits or _ . : / -, no spaces)"
        )
    if not name.isascii():
        _refuse_look_alike(name, place)
    return name


def _is_unicode_metric(name: str) -> bool:
    # A word of any script, by the rule that Python's identifiers follow (UAX 31), with our separators.
    return 0 < len(name) <= 128 and name[0].isalnum() and ("_" + name.translate(_SEPARATORS)).isidentifier()


def _refuse_look_alike(name: str, place: str) -> None:
    import unicodedata  # here, because hardly any name needs it and a Lambda's start does

    normal = unicodedata.normalize("NFC", name)
    if normal != name:
        raise InvalidInput(place, f"{ascii(name)[:60]} must be written as {shorten(normal)} (Unicode form NFC)")
    if _INVISIBLE.search(name):
        raise InvalidInput(place, f"{ascii(name)[:60]} has an invisible character")


SEED_TARGET = Target()
