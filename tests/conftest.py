"""What all tests share: how a test says that the machine lacks something, and Hypothesis's settings."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("kizami", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kizami")


def skip_for_lack_of(what: str, remedy: str) -> None:
    """Skip with the line that says how to get `what`; fail where everything must be there (`.ci/run`)."""
    line = f"needs {what}: {remedy}"
    if os.environ.get("KIZAMI_TEST_NOTHING_LACKING"):
        pytest.fail(line)
    pytest.skip(line)
