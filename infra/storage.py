"""Storage: the table `AiResponseMetrics`, one item a metric and slot (Requirement 6.1)."""

from __future__ import annotations

from constructs import Construct

from infra.foundation import Foundation
from infra.parts.tables import make_table


class Storage(Construct):
    """The table, with the keys of the seeds."""

    def __init__(self, scope: Construct, id: str, foundation: Foundation) -> None:
        super().__init__(scope, id)
        name = foundation.settings.table_name
        self.table = make_table(self, "Metrics", foundation, name, "metricName", "slotTime")
