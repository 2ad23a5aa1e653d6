"""The environment variables by which a function knows its targets."""

from __future__ import annotations

from kizami.aws.bundles.files import FOLDER
from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.package import CONFIG_NAME


def target_environment(foundation: Foundation) -> dict[str, str]:
    """The configuration in the package if there is one, whole or in pieces, else the lag of the default target."""
    if foundation.bundles:
        return {"KIZAMI_BUNDLES": FOLDER}
    if foundation.has_config:
        return {"KIZAMI_CONFIG": CONFIG_NAME}
    return {"WINDOW_LAG_SECONDS": str(foundation.settings.lag_seconds)}


def keep_environment(foundation: Foundation) -> dict[str, str]:
    """For how long records are kept of targets that do not say so; a bundle's members all say it."""
    days = foundation.settings.keep_days
    return {"KIZAMI_KEEP_DAYS": str(days)} if days and not foundation.bundles else {}
