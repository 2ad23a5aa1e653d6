"""One local AWS for all end-to-end tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aws_here.ministack import LocalAws, local_aws
from browser.conftest import browser, open_page  # noqa: F401  (fixtures, for the page over the deployed stack)


@pytest.fixture(scope="session")
def aws() -> Iterator[LocalAws]:
    """A running local AWS that enforces IAM and TLS."""
    with local_aws() as running:
        yield running
