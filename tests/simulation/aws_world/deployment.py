"""A stack as it is deployed: the files of its package and the environment of each function, as by kizami/cdk/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kizami.aws.backend import AwsBackend
from kizami.aws.places import FoundPlaces
from kizami.cdk.parts.configuration import bundle_files
from kizami.core.backfill import SPREAD_SECONDS
from kizami.core.config import Config, parse_config
from kizami.core.ports import Clock
from kizami.core.targets.bundles import NamedBundle, make_bundles
from kizami.core.targets.target import Target
from simulation.aws_world.apis import RECEIVER_HOST, USERS_HOST
from simulation.aws_world.plan import Shape, Stack
from simulation.aws_world.sqs import SimulatedQueue

METRICS, LEDGER, COMPANIES, POINTS = "AiResponseMetrics", "Ledger", "Company", "Points"
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
        text = "\n".join(_table(each) for each in stack.targets)
        text += _RULE if text and stack.alerts else ""
        self.config = parse_config(text) if text else original()
        self.bundles = make_bundles(self.config.enabled_targets) if stack.shape is Shape.BUNDLES else []
        # Found by what is still on a queue, and polled no more.
        self.disabled = make_bundles(target for target in self.config.targets if not target.enabled)
        self._write(text)

    def environment(self, function: str) -> dict[str, str]:
        """What the function is told."""
        common = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "LAMBDA_TASK_ROOT": str(self._folder),
        }
        return {**common, **getattr(self, f"_{function}")()}

    def backend(self, clock: Clock) -> AwsBackend:
        """What a verb reads the stack by."""
        environment = {
            "QUEUE_URL": self._queues["live"].url,
            "KIZAMI_BACKFILL_QUEUE_URL": self._queues["backfill" if self.bundles else "live"].url,
            "KIZAMI_DEAD_LETTER_QUEUE_URL": self._queues["dead"].url,
            **({"KIZAMI_LEDGER_TABLE_NAME": LEDGER} if self.bundles else {}),
        }
        places = FoundPlaces(METRICS, environment=environment, _outputs={})
        return AwsBackend(places, self.config.targets, clock, self.stack.grace_seconds, keeps=False)

    def metrics_of(self, bundle: NamedBundle) -> list[tuple[str, ...]]:
        """The metrics of each member."""
        return [self.config.target(name).metrics for name in bundle.members]

    def _write(self, text: str) -> None:
        files = bundle_files(text, self.bundles) if self.bundles else {"kizami.toml": text.encode()}
        for name, content in files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _sender(self) -> dict[str, str]:
        return {"QUEUE_URL": self._queues["live"].url, **self._targets()}

    def _collector(self) -> dict[str, str]:
        environment = {"AI_METRICS_TABLE_NAME": METRICS, **self._targets()}
        if self.stack.shape is Shape.ORIGINAL:
            target = self.config.targets[0]
            environment |= {"AI_API_BASE_URL": target.url, "KIZAMI_API_KEY": "secretsmanager:host0"}
        if self.bundles:
            environment |= {
                "KIZAMI_LEDGER_TABLE_NAME": LEDGER,
                "KIZAMI_MAX_ATTEMPTS": str(self.stack.max_receives),
                "QUEUE_URL": self._queues["live"].url,
                "KIZAMI_BACKFILL_QUEUE_URL": self._queues["backfill"].url,
                "KIZAMI_DEAD_LETTER_QUEUE_URL": self._queues["dead"].url,
            }
        return environment

    def _reconciler(self) -> dict[str, str]:
        shares = not self.bundles
        return {
            "QUEUE_URL": self._queues["live" if shares else "backfill"].url,
            "AI_METRICS_TABLE_NAME": METRICS,
            "KIZAMI_STACK": "simulated",
            "KIZAMI_RECONCILE_MINUTES": "5",
            "KIZAMI_RECONCILE_HOURS": str(self.stack.reconcile_hours),
            "KIZAMI_RECONCILE_LIMIT": "1000",
            "KIZAMI_GRACE_SECONDS": str(self.stack.grace_seconds),
            "KIZAMI_ALARM_TOPIC_ARN": TOPIC,
            **({"KIZAMI_SPREAD_SECONDS": str(SPREAD_SECONDS)} if shares else {}),
            **({"KIZAMI_LEDGER_TABLE_NAME": LEDGER} if self.bundles else {}),
            **self._targets(),
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

    def _targets(self) -> dict[str, str]:
        if self.bundles:
            return {"KIZAMI_BUNDLES": "bundles"}
        if self.stack.shape is Shape.ONE:
            return {"KIZAMI_CONFIG": "kizami.toml"}
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
