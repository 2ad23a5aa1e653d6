"""What all tests share: how a test says that the machine lacks something, and Hypothesis's settings."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

import failed_tests
from kizami.core import redaction
from programs import once_a_run

settings.register_profile("kizami", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kizami")

# A run that was started in the background ignores Ctrl-C, and so would the programs it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is found stays to the end: to look through it again and again would take a tenth of all the time.
gc.disable()

SLOW_FIRST = ("e2e", "browser", "simulation", "contract", "infra", "local_store", "property")
# The longest first, so that none is left over at the end. Who waits, for the local AWS or for CDK, lets the others
# compute: such files stand between those that compute.
SLOWEST = (
    *("simulation/simulated_days", "e2e/many_targets", "e2e/local_aws", "simulation/engine"),
    *("simulation/simulated_stacks", "e2e/up", "e2e/bundles_in_trouble", "e2e/alerts_on_aws"),
    *("e2e/cdk_command", "e2e/local_aws_aggregation", "contract/homes", "browser/dashboard_page"),
    *("e2e/verbs_on_deployed_stack", "simulation/timescales", "simulation/crash_points", "e2e/wheel"),
    *("infra/settings", "browser/dashboard_up", "contract/verbs_on_both_backends", "e2e/backfill_verb"),
    *("simulation/blocked_targets", "infra/own_app", "browser/wall", "simulation/faults", "e2e/own_cdk_app"),
    *("contract/aggregation_stores", "local_store/expiry", "infra/package", "e2e/verbs", "infra/targets"),
    *("browser/dashboard_phone", "local_store/history_machine", "infra/production", "e2e/dashboard_schema"),
    *("mutants/mutants", "browser/dashboard_focus", "infra/safe_defaults", "simulation/backups"),
    *("e2e/dashboard_api", "e2e/mock_api_schema", "simulation/other_programs", "infra/specification"),
    *("e2e/user_files", "e2e/running_config"),
    *("alerts/decision", "bundles/reconciling", "house/house", "e2e/scarcity", "e2e/real_servers"),
    "contract/packed_documents",
    *("e2e/ends_of_time", "e2e/read_only", "local_store/damaged_history"),
)


def pytest_configure(config: pytest.Config) -> None:
    failed_tests.register(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files run side by side, in this order. `make quick` leaves those out that ask an AWS on the loopback."""
    for item in items:
        if isinstance(item, pytest.Function) and any(name.endswith("_endpoint") for name in item.fixturenames):
            item.add_marker("emulator")
    items.sort(key=lambda item: _rank(item.path))
    assert len({item.nodeid for item in items}) == len(items), "of two tests with one id only one would run"


def _rank(path: Path) -> int:
    name = f"{path.parent.name}/{path.stem.removeprefix('test_')}"
    if name in SLOWEST:
        return SLOWEST.index(name)
    return len(SLOWEST) + (path.parent.name not in SLOW_FIRST)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # to look as often as usual would take a tenth of all the time as well
    gc.enable()


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


@pytest.fixture(scope="session")
def dynalite_endpoint() -> str:
    """A DynamoDB that neither Amazon nor moto has written, one server for the whole run."""
    from aws_here.local_aws import dynalite_server

    return once_a_run.shared_server("dynalite", dynalite_server)


@pytest.fixture(scope="session")
def fauxqs_endpoint() -> str:
    """An SQS that moto has not written, one server for the whole run."""
    from aws_here.local_aws import fauxqs_server

    return once_a_run.shared_server("fauxqs", fauxqs_server)


def _close_event_loop() -> None:
    side_by_side = sys.modules.get("kizami.aws.client.side_by_side")
    if side_by_side is not None and side_by_side.event_loop.cache_info().currsize:
        side_by_side.loop_client().close()
        side_by_side.event_loop().run_until_complete(side_by_side.asyncio.sleep(0))
        side_by_side.event_loop().close()


@pytest.fixture(scope="session", autouse=True)
def no_connection_outlives_the_tests() -> Iterator[None]:
    """The functions keep theirs for the next invocation; here there is none."""
    yield
    clients = {
        "store.sqs_queue": ["sqs_client"],
        "dynamodb": ["dynamodb_client"],
        "collector": ["api_client"],
        "client.secrets": ["secrets_manager", "parameter_store"],
    }
    _close_event_loop()
    for module, names in clients.items():
        if loaded := sys.modules.get(f"kizami.aws.{module}"):
            for name in names:
                getattr(loaded, name)().close()
