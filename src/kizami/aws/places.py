"""Where the table and the queues are on AWS: as options and environment say, else as the stack's outputs say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kizami.aws.client.stack_outputs import DEFAULT_STACK, stack_outputs
from kizami.aws.settings import require_queue_url, require_table_name
from kizami.core.errors import ConfigurationError

_COMPANY_TABLES = (("COMPANY_TABLE_NAME", "CompanyTableName"), ("POINTS_TABLE_NAME", "PointsTableName"))


class Places(Protocol):
    """Where a deployed system has its parts; there may be no queue of dead letters, and no ledger."""

    @property
    def table(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def backfill_queue(self) -> str: ...

    @property
    def dead_letter_queue(self) -> str | None: ...

    @property
    def ledger(self) -> str | None: ...


@dataclass(slots=True)
class FoundPlaces:
    """The places, each looked up when it is needed; the stack is asked once at most."""

    table_name: str | None = None
    stack: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _outputs: dict[str, str] | None = None

    @property
    def table(self) -> str:
        """The metrics table."""
        name = self.table_name or self._output("MetricsTableName", "AI_METRICS_TABLE_NAME")
        return require_table_name({"AI_METRICS_TABLE_NAME": name})

    @property
    def queue(self) -> str:
        """The queue of live slots."""
        return self._queue_url("QUEUE_URL", "QueueUrl")

    @property
    def retry_queue(self) -> str:
        """The queue of slots that failed; the live one where no other is named beside it."""
        variable, output = "KIZAMI_RETRY_QUEUE_URL", "RetryQueueUrl"
        is_set = self.environment.get(variable)
        if not is_set and (self.environment.get("QUEUE_URL") or output not in self._stack):
            return self.queue
        return self._queue_url(variable, output)

    @property
    def backfill_queue(self) -> str:
        """The queue of slots that are asked for again."""
        return self._queue_url("KIZAMI_BACKFILL_QUEUE_URL", "BackfillQueueUrl")

    @property
    def dead_letter_queue(self) -> str | None:
        """The queue of dead letters; a stack may have been deployed without one."""
        variable, output = "KIZAMI_DEAD_LETTER_QUEUE_URL", "DeadLetterQueueUrl"
        if not self.environment.get(variable) and output not in self._stack:
            return None
        return self._queue_url(variable, output)

    @property
    def ledger(self) -> str | None:
        """The ledger of ticks; a stack of one target has none."""
        name = self._found("KIZAMI_LEDGER_TABLE_NAME", "LedgerTableName")
        return require_table_name({"AI_METRICS_TABLE_NAME": name}) if name else None

    @property
    def company_tables(self) -> tuple[str, str] | None:
        """The tables of the aggregation batch, companies and points; None where the stack has none."""
        names = [self._found(*place) for place in _COMPANY_TABLES]
        if None in names:
            return None
        companies, points = (require_table_name({"AI_METRICS_TABLE_NAME": name or ""}) for name in names)
        return companies, points

    def _found(self, variable: str, output: str) -> str | None:
        return self.environment.get(variable) or self._stack.get(output)

    def _queue_url(self, variable: str, output: str) -> str:
        url = self.environment.get(variable) or self._output(output, variable)
        return require_queue_url({"QUEUE_URL": url})

    def _output(self, name: str, variable: str) -> str:
        if name not in self._stack:
            stack = self.stack or DEFAULT_STACK
            raise ConfigurationError(variable, f"is not set, and the stack {stack} has no output {name}")
        return self._stack[name]

    @property
    def _stack(self) -> dict[str, str]:
        if self._outputs is None:
            self._outputs = stack_outputs(self.stack or DEFAULT_STACK)
        return self._outputs
