"""The environment variables by which a function knows its targets."""

from __future__ import annotations

from infra.foundation import Foundation
from infra.parts.package import CONFIG_NAME


def target_environment(foundation: Foundation) -> dict[str, str]:
    """The configuration in the package if there is one, else the lag of the default target."""
    if foundation.has_config:
        return {"KIZAMI_CONFIG": CONFIG_NAME}
    return {"WINDOW_LAG_SECONDS": str(foundation.settings.lag_seconds)}
