"""What a verb's exit code tells a script; docs/cli.md lists them. Click itself uses 2 for usage."""

from __future__ import annotations

from kizami.core.errors import (
    ApiUnreachable,
    ConfigurationError,
    InvalidInput,
    KizamiError,
    QueueUnreachable,
    StoreUnreachable,
)

OK, FAILURE, USAGE, CONFIGURATION, UNREACHABLE, CHECK_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def exit_code(error: KizamiError) -> int:
    """The exit code that tells a script what kind of failure it was."""
    if isinstance(error, InvalidInput):
        return USAGE
    if isinstance(error, ConfigurationError):
        return CONFIGURATION
    if isinstance(error, ApiUnreachable | QueueUnreachable | StoreUnreachable):
        return UNREACHABLE
    return FAILURE
