"""What all tests share: how a test says that the machine lacks something, and Hypothesis's settings."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from kizami.core import redaction
from programs import once_a_run

settings.register_profile("kizami", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kizami")

# A run that was started in the background ignores Ctrl-C, and so would the programs it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW_FIRST = ("e2e", "browser", "simulation")
SLOWEST = ("cdk_command", "faults", "up", "engine", "dashboard_page", "backfill_verb", "verbs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files run side by side: the slow ones first, the slowest before the others, so that none is left over at the
    end, and those that run a local AWS far from each other, so that the machine need not run several at once."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    slow = [path for path in files if path.parent.name in SLOW_FIRST]
    heavy = [path for path in slow if any("aws" in _fixtures(item) for item in files[path])]
    light = sorted((path for path in slow if path not in heavy), key=_rank)
    place = {path: place / len(some) for some in (heavy, light) for place, path in enumerate(some)}
    items.sort(key=lambda item: place.get(item.path, 1))
    assert len({item.nodeid for item in items}) == len(items), "of two tests with one id only one would run"


def _rank(path: Path) -> int:
    name = path.stem.removeprefix("test_")
    return SLOWEST.index(name) if name in SLOWEST else len(SLOWEST)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


def skip_for_lack_of(what: str, remedy: str) -> NoReturn:
    """Skip with the line that says how to get `what`; fail where everything must be there (`.ci/run`)."""
    line = f"needs {what}: {remedy}"
    if os.environ.get("KIZAMI_TEST_NOTHING_LACKING"):
        pytest.fail(line)
    pytest.skip(line)


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A test may send kizami's log where it likes; the next one finds it as it was."""
    logger = logging.getLogger("kizami")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.fixture(autouse=True)
def _no_secret_of_another_test() -> None:
    """What one test made known as a secret may be an ordinary word in the next."""
    redaction.KNOWN.__init__()  # type: ignore[misc]


@pytest.fixture(scope="session", autouse=True)
def _one_of_each_a_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The processes of a run have directories of their own side by side."""
    own = tmp_path_factory.getbasetemp()
    once_a_run.share_in((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "once-a-run")


def pytest_sessionfinish() -> None:
    """Not in a fixture: to wait for the other processes is no part of the last test."""
    once_a_run.stop_servers()


@pytest.fixture(scope="session")
def moto_endpoint() -> str:
    """SQS and DynamoDB as moto plays them, one server for the whole run."""
    from aws_here.local_aws import moto_server

    return once_a_run.shared_server("moto", moto_server)


@pytest.fixture(scope="session")
def dynamodb_local_endpoint() -> str:
    """Amazon's own DynamoDB Local, one server for the whole run."""
    from aws_here.local_aws import dynamodb_local_server

    return once_a_run.shared_server("dynamodb-local", dynamodb_local_server)


@pytest.fixture(scope="session", autouse=True)
def no_connection_outlives_the_tests() -> Iterator[None]:
    """The functions keep theirs for the next invocation; here there is none."""
    yield
    clients = {
        "store.sqs_queue": ["sqs_client"],
        "store.metric_table": ["dynamodb_client"],
        "collector": ["api_client"],
        "client.secrets": ["secrets_manager", "parameter_store"],
    }
    for module, names in clients.items():
        if loaded := sys.modules.get(f"kizami.aws.{module}"):
            for name in names:
                getattr(loaded, name)().close()
