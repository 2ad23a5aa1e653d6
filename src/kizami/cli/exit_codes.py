"""What a verb's exit code tells a script; docs/cli.md lists them. Click itself uses 2 for usage."""

from __future__ import annotations

OK, FAILURE, USAGE, CONFIGURATION, UNREACHABLE, CHECK_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
