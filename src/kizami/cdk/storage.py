"""Storage: the table `AiResponseMetrics`, one item a metric and slot (Requirement 6.1), and the ledger."""

from __future__ import annotations

from constructs import Construct

from kizami.aws.costs.capacity import slots_a_second, warm_writes
from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.tables import capacity_for, make_passing_table, make_table


class Storage(Construct):
    """The table, with the keys of the seeds."""

    def __init__(self, scope: Construct, id: str, foundation: Foundation) -> None:
        super().__init__(scope, id)
        settings, writes = foundation.settings, slots_a_second(foundation.targets)  # one item a slot
        is_on_demand = settings.capacity == "on_demand"
        kept = [metric.interval_seconds for metric in foundation.kept]
        self.table = make_table(
            self,
            "Metrics",
            foundation,
            settings.table_name,
            "metricName",
            "slotTime",
            capacity=capacity_for(settings, writes, kept),
            warm_writes=(settings.warm_writes or warm_writes(writes)) if is_on_demand else None,
            expiring=True,
        )


class Ledger(Construct):
    """The ledger of ticks: what of each bundle is stored, for two days. It can be made again, so it goes with the
    stack."""

    def __init__(self, scope: Construct, id: str, foundation: Foundation) -> None:
        super().__init__(scope, id)
        self.table = make_passing_table(self, "Ticks", foundation, "bundle", "tick")
