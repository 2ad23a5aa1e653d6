"""Monitoring: the alarms that call somebody, and the dashboard that shows them why."""

from __future__ import annotations

from constructs import Construct

from infra.foundation import Foundation
from infra.schedule import SubMinuteSchedule


class Monitoring(Construct):
    def __init__(self, scope: Construct, id: str, foundation: Foundation, schedule: SubMinuteSchedule) -> None:
        super().__init__(scope, id)
