"""A stack as it is deployed: the files of its package and the environment of each function, as by kizami/cdk/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kizami.aws.backend import AwsBackend
from kizami.aws.files import FOLDER, write_files, write_kept
from kizami.aws.places import FoundPlaces
from kizami.aws.ticks_backend import TicksBackend
from kizami.core.backfill import SPREAD_SECONDS
from kizami.core.bundles import BundlePlan, make_plan
from kizami.core.config import Config, load_toml, parse_config
from kizami.core.ports import Clock
from kizami.core.targets.target import Target
from simulation.aws_world.apis import RECEIVER_HOST, USERS_HOST
from simulation.aws_world.plan import Shape, Stack
from simulation.aws_world.sqs import SimulatedQueue

METRICS, COMPANIES, POINTS = "AiResponseMetrics", "Company", "Points"
TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
ACCESS_KEY, SECRET_KEY = "AKIASIMULATED", "s1mulated/s3cret+access"
_ORIGINAL_INTERVAL = 5
_RULE = f"""
[[alerts]]
name = "receiver"
to = "https://{RECEIVER_HOST}/kizami"
when = ["fails", "silent", "late", "dead", "aggregation failed"]
wait = "0s"
"""


class Deployment:
    """One version of a stack, in a folder of its own."""

    def __init__(self, stack: Stack, folder: Path, queues: Mapping[str, SimulatedQueue]) -> None:
        self.stack = stack
        self._folder = folder
        self._queues = queues
        self.plan = BundlePlan("", ())
        if self.has_plan:
            text = "\n".join(_table(each) for each in stack.targets) + (_RULE if stack.alerts else "")
            self.config = parse_config(text)
            self.plan = make_plan(self.config.enabled_targets)
            self._write(text)
        else:
            self.config = original()

    @property
    def has_plan(self) -> bool:
        """Whether its targets are those of a kizami.toml."""
        return self.stack.shape is Shape.PLAN

    def target(self, name: str) -> Target | None:
        """The target of that name, or that has the metric among its values."""
        return next((each for each in self.config.targets if name == each.name or name in each.metrics), None)

    def environment(self, function: str) -> dict[str, str]:
        """What the function is told."""
        common = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "LAMBDA_TASK_ROOT": str(self._folder),
        }
        return {**common, **getattr(self, f"_{function}")()}

    def backend(self, clock: Clock) -> AwsBackend | TicksBackend:
        """What a verb reads and repairs the stack by."""
        backfill = "backfill" if self.has_plan else "live"
        environment = {
            "QUEUE_URL": self._queues["live"].url,
            "KIZAMI_RETRY_QUEUE_URL": self._queues["retry"].url,
            "KIZAMI_BACKFILL_QUEUE_URL": self._queues[backfill].url,
            "KIZAMI_DEAD_LETTER_QUEUE_URL": self._queues["dead"].url,
        }
        places = FoundPlaces(METRICS, environment=environment, _outputs={})
        if self.has_plan:
            return TicksBackend(places, self.config.targets, clock)
        return AwsBackend(places, self.config.targets, clock, self.stack.grace_seconds, keeps=False)

    def _write(self, text: str) -> None:
        for name, content in self._files(text).items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _files(self, text: str) -> dict[str, bytes]:
        tables = {table["name"]: table for table in load_toml(text, "kizami.toml")["targets"]}
        disabled = [target.name for target in self.config.targets if not target.enabled]
        return write_files(self.plan, tables, disabled) | write_kept(self.config.targets)

    def _sender(self) -> dict[str, str]:
        if self.has_plan:
            return self._of_plan()
        return {"QUEUE_URL": self._queues["live"].url, **self._of_original()}

    def _collector(self) -> dict[str, str]:
        if self.has_plan:
            return {**self._of_plan(), "KIZAMI_MAX_ATTEMPTS": str(self.stack.max_receives)}
        return {
            "AI_METRICS_TABLE_NAME": METRICS,
            "AI_API_BASE_URL": self.config.targets[0].url,
            "KIZAMI_API_KEY": "secretsmanager:host0",
            **self._of_original(),
        }

    def _reconciler(self) -> dict[str, str]:
        common = {
            "KIZAMI_STACK": "simulated",
            "KIZAMI_RECONCILE_MINUTES": "5",
            "KIZAMI_RECONCILE_HOURS": str(self.stack.reconcile_hours),
            "KIZAMI_ALARM_TOPIC_ARN": TOPIC,
        }
        if self.has_plan:
            return {**common, **self._of_plan()}
        return {
            **common,
            "QUEUE_URL": self._queues["live"].url,
            "AI_METRICS_TABLE_NAME": METRICS,
            "KIZAMI_RECONCILE_LIMIT": "1000",
            "KIZAMI_GRACE_SECONDS": str(self.stack.grace_seconds),
            "KIZAMI_SPREAD_SECONDS": str(SPREAD_SECONDS),
            **self._of_original(),
        }

    def _dispatcher(self) -> dict[str, str]:
        return {"COMPANY_TABLE_NAME": COMPANIES, "QUEUE_URL": self._queues["companies"].url}

    def _aggregation(self) -> dict[str, str]:
        return {
            "COMPANY_TABLE_NAME": COMPANIES,
            "POINTS_TABLE_NAME": POINTS,
            "AGGREGATION_API_BASE_URL": f"https://{USERS_HOST}",
            "QUEUE_URL": self._queues["companies"].url,
            "KIZAMI_AGGREGATION_RETRY_SECONDS": "300",
        }

    def _of_plan(self) -> dict[str, str]:
        return {
            "AI_METRICS_TABLE_NAME": METRICS,
            "KIZAMI_BUNDLES": FOLDER,
            "QUEUE_URL": self._queues["live"].url,
            "KIZAMI_RETRY_QUEUE_URL": self._queues["retry"].url,
            "KIZAMI_BACKFILL_QUEUE_URL": self._queues["backfill"].url,
            "KIZAMI_DEAD_LETTER_QUEUE_URL": self._queues["dead"].url,
        }

    def _of_original(self) -> dict[str, str]:
        return {"WINDOW_LAG_SECONDS": str(_ORIGINAL_INTERVAL)}


def original() -> Config:
    """The original target at a real API: its lag is a whole window."""
    return Config((Target(url="https://host0.example", lag_seconds=_ORIGINAL_INTERVAL),))


def _table(table: Mapping[str, Any]) -> str:
    return "\n".join(["[[targets]]", *(f"{name} = {_value(value)}" for name, value in table.items())])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)
