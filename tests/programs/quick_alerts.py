"""The command line with alerts that look four times a second and call a target well after a second.

Run as `python tests/programs/quick_alerts.py VERB …`; QUICK is that command.
"""

from __future__ import annotations

import sys
from pathlib import Path

QUICK = [sys.executable, str(Path(__file__))]


if __name__ == "__main__":
    from kizami.alerts import incidents
    from kizami.local.alerts import heartbeat, outbox, watch

    watch.LOOK_SECONDS = 0.25
    incidents.CALM_SECONDS = 1
    outbox.LEAST_WAIT_SECONDS = 0.5
    heartbeat.EVERY_SECONDS = 0.5

    from kizami.cli.main import main

    main()
