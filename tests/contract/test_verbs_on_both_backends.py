"""The verbs give the same answers on one machine and on AWS, and repair both."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aws_here.deployed import Deployment
from aws_here.local_aws import environment as aws_environment
from aws_here.local_aws import lead_to, sqs_at
from aws_here.read_queue import ReadSqsQueue
from kizami.aws.backend import AwsBackend
from kizami.aws.places import FoundPlaces
from kizami.aws.queue_worker import CollectorFunction
from kizami.aws.store.metric_table import DynamoDbMetricStore
from kizami.aws.store.sqs_queue import SqsQueue, sqs_client
from kizami.backend.port import Backend
from kizami.backend.snapshot import take_snapshot
from kizami.backend.targets import ONE_MACHINE
from kizami.cli.exit_codes import CHECK_FAILED, CONFIGURATION, FAILURE, OK, UNREACHABLE, USAGE
from kizami.core.messages import MetricRecord, read_message
from kizami.core.sender import PlannedMessage, message_for_slot
from kizami.core.slots import format_instant
from kizami.core.targets.target import Target
from kizami.local.backend import LocalBackend
from kizami.platform.clock import SystemClock
from programs.command import Command, Outcome, run_process
from programs.command import environment as process_environment
from samples.database import at, bury_slots, make_database
from samples.page_database import build_targets, newest_due

SLOTS = 240
NOW = at(SLOTS) + timedelta(hours=1)
RANGE = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T09:20:00Z")
GONE = {99, *range(200, 210)}
CALLS = Target(name="calls", lag_seconds=5)


class OnAws(Deployment):
    """A deployment, and the command line led to it."""

    def __init__(self, endpoint: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(endpoint)
        self._command = command
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def __call__(self, *arguments: str | Path) -> Outcome:
        return self._command(*arguments, "--backend", "aws")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    for name in ("KIZAMI_CONFIG", "KIZAMI_DATABASE", "KIZAMI_STACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    Path("kizami.toml").write_text('[[targets]]\nname = "calls"\nurl = "http://127.0.0.1:9"\nlag = "5s"\n')
    return Command(capsys)


@pytest.fixture
def aws(command: Command, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> OnAws:
    """Twenty minutes of `calls` without slots 99 and 200 to 209, an hour ago."""
    lead_to(moto_endpoint, monkeypatch)
    backend = OnAws(moto_endpoint, command, monkeypatch)
    backend.store([record(number) for number in range(SLOTS) if number not in GONE])
    return backend


def record(number: int) -> MetricRecord:
    return MetricRecord("calls", at(number), number % 11, at(number + 1))


@pytest.fixture
def local(command: Command) -> Command:
    """The same on this machine."""
    make_database(Path("kizami.db"), {"calls": [number for number in range(SLOTS) if number not in GONE]})
    return command


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "calls", *RANGE],
        ["query", "calls", *RANGE, "--json"],
        ["query", "calls", *RANGE, "--csv"],
        ["query", "calls", *RANGE, "--every", "5m", "--tz", "Asia/Kathmandu"],
        ["query", "*", *RANGE, "--every", "1m", "--compare", "10m", "--json"],
        ["query", "calls", *RANGE, "--sum", "--csv"],
        ["chart", "calls", *RANGE, "--every", "2m", "--mean"],
        ["chart", "calls", *RANGE],
        ["chart", "calls", *RANGE, "--json"],
        ["gaps", *RANGE],
        ["gaps", *RANGE, "--json"],
        ["gaps", *RANGE, "--check"],
        ["export", "--format", "jsonl"],
        ["export", "calls", *RANGE],
        ["export", "calls", *RANGE, "--excel"],
        ["export", "calls", *RANGE, "--every", "1m"],
        ["sql", "SELECT metric, slot, count, backfilled, state FROM records WHERE metric = 'calls'"],
        ["sql", "SELECT metric, newest_slot FROM metrics", "--json"],
        ["sql", "SELECT * FROM dead_letters", "--csv"],
        ["backfill", "--gaps", *RANGE, "--dry-run"],
        ["dead-letters", "list"],
    ],
    ids=" ".join,
)
def test_both_backends_answer_with_the_same_data_words_and_exit_code(
    local: Command, aws: OnAws, arguments: list[str]
) -> None:
    here, there = local(*arguments), aws(*arguments)
    assert there == here
    assert there.code == (CHECK_FAILED if "--check" in arguments else OK)


def test_the_queue_in_sql_is_refused_where_it_cannot_be_listed(local: Command, aws: OnAws) -> None:
    statement = "SELECT metric, slot, attempts FROM queue"
    assert local("sql", statement).code == OK
    refused = aws("sql", statement)
    assert (refused.code, refused.out) == (FAILURE, "")
    assert refused.err == "kizami: SQS does not show its messages; kizami status tells how many there are\n"


def test_status_tells_the_same_as_far_as_aws_can_tell(
    local: Command, aws: OnAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIZAMI_GRACE_SECONDS", "10")
    monkeypatch.setattr("kizami.aws.backend.ON_AWS", ONE_MACHINE)
    monkeypatch.setattr("kizami.aws.backend.pace_of", lambda _: ONE_MACHINE)
    SqsQueue(aws.queue).send([PlannedMessage(message_for_slot(at(n), CALLS), n * 100) for n in range(3)])
    SqsQueue(aws.dead).send([PlannedMessage(message_for_slot(at(99), CALLS), 0)])
    bury_slots(Path("kizami.db"), "calls", [99], "status 500, expected 200", NOW)
    here, there = local("status", "--json").json, aws("status", "--json").json
    assert there["metrics"] == here["metrics"]
    assert there["coverage"] == here["coverage"]
    assert there["verdict"] == here["verdict"]
    assert there["queue"] == {"waiting": 1, "planned": 2, "inFlight": 0, "oldestAgeSeconds": None}
    assert there["deadLetters"] == 1
    words = aws("status").out
    assert "queue     1 waiting, 2 planned, 0 in flight\n" in words
    assert "daemon" not in words
    assert there["daemon"] is None


def test_lateness_on_aws_is_that_of_live_records(aws: OnAws, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [NOW - timedelta(seconds=60 + 5 * number) for number in range(60)]
    due = timedelta(seconds=CALLS.lag_seconds)
    for late_seconds in range(3):
        late = due + timedelta(seconds=late_seconds)
        aws.store([MetricRecord("calls", slot, 1, slot + late) for slot in slots[late_seconds::3]])
    aws.store([MetricRecord("calls", NOW - timedelta(seconds=30), 1, NOW + timedelta(hours=1))])  # not a live one
    told = aws("status", "--json").json["lateness"]
    assert (told["polls"], told["p50Ms"], told["maxMs"]) == (60, 1000, 2000)


class TestTargetsAtAMinute:
    """The newest slot, due 20 s ago, may still be on its way: nobody counts it, on either backend."""

    MINUTELY = Target(name="minutely", interval_seconds=60, lag_seconds=60)
    LAST_HOUR = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T10:00:00Z")
    AT = datetime(2025, 12, 2, 10, 0, 20, tzinfo=UTC)

    @pytest.fixture(autouse=True)
    def configured(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(SystemClock, "now", lambda clock: self.AT)
        lines = '[[targets]]\nname = "minutely"\nurl = "http://127.0.0.1:9"\ninterval = "60s"\n'
        Path("kizami.toml").write_text(lines)

    def told(self, status: Outcome, query: Outcome, page: Backend) -> list[tuple[int, int]]:
        hour, records = status.json["coverage"]["hour"], query.json
        overview = take_snapshot(page, self.AT).overview
        return [
            (hour["stored"], hour["expected"]),
            (records["stored"], records["expected"]),
            (overview.hour.stored, overview.hour.expected),
        ]

    def test_one_machine(self, command: Command) -> None:
        path = build_targets(Path("kizami.db"), self.AT, {self.MINUTELY: [0]}, slots=120)
        status, query = command("status", "--json"), command("query", "minutely", *self.LAST_HOUR, "--json")
        with closing(LocalBackend(path)) as page:
            assert self.told(status, query, page) == [(60, 60), (59, 59), (60, 60)]

    def test_aws(self, command: Command, moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
        lead_to(moto_endpoint, monkeypatch)
        aws = OnAws(moto_endpoint, command, monkeypatch)
        newest = newest_due(self.MINUTELY, self.AT)
        slots = [newest - timedelta(minutes=back) for back in range(2, 120)]
        aws.store(MetricRecord("minutely", slot, 7, slot + timedelta(minutes=1)) for slot in slots)
        page = AwsBackend(aws.places, [self.MINUTELY], SystemClock(), 960)
        status, query = aws("status", "--json"), aws("query", "minutely", *self.LAST_HOUR, "--json")
        # Here the last two may be on their way: the rule fires at any second of the minute.
        assert self.told(status, query, page) == [(60, 60), (58, 58), (60, 60)]


def test_what_is_on_aws_needs_neither_sqlite_nor_curl(aws: OnAws, moto_endpoint: str) -> None:
    program = [
        "import sys",
        "sys.modules['apsw'] = sys.modules['pycurl'] = None",
        "import kizami.aws.backend, kizami.web.application",
        "import kizami.cli.verbs.aggregate, kizami.cli.verbs.dashboard",
        "from kizami.cli.main import main",
        "main(sys.argv[1:])",
    ]
    led = process_environment(**aws.environment, **aws_environment(moto_endpoint), KIZAMI_BACKEND="aws")
    for verb in (["query", "calls", *RANGE], ["status"], ["gaps", *RANGE], ["dead-letters", "list"]):
        program_line = [sys.executable, "-c", "\n".join(program)]
        found = run_process(*verb, cwd=Path(), env=led, program=program_line)
        assert found.code == OK, found.err


def test_reading_records_needs_to_know_of_the_table_alone(aws: OnAws, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QUEUE_URL", "KIZAMI_BACKFILL_QUEUE_URL", "KIZAMI_DEAD_LETTER_QUEUE_URL"):
        monkeypatch.delenv(name)  # and there is no stack to ask
    for verb in (["query", "calls", *RANGE], ["chart", "calls", *RANGE], ["export"]):
        assert aws(*verb).code == OK


def test_a_stack_without_a_dead_letter_queue_says_so(aws: OnAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FoundPlaces, "dead_letter_queue", None)
    line = "kizami: the stack: has no dead-letter queue, a slot that fails is tried until it expires; "
    for verb in (["list"], ["redrive"], ["purge", "--yes"], ["show", "calls", format_instant(at(0))]):
        found = aws("dead-letters", *verb)
        assert (found.code, found.out) == (CONFIGURATION, "")
        assert found.err == f"{line}deploy it with max_receives above 0\n"
    assert aws("status", "--json").json["deadLetters"] == 0


@contextmanager
def collecting(aws: OnAws) -> Iterator[None]:
    """Somebody who works off the backfill queue, as the Collector function does."""
    stop = threading.Event()

    def work() -> None:
        queue, store = ReadSqsQueue(aws.backfill), DynamoDbMetricStore(aws.table)
        while not stop.wait(0.02):
            for received in queue.receive(3):
                message = read_message(received.body)
                store.put_if_absent(MetricRecord(message.metric, message.window.start, 5, NOW))
                queue.acknowledge(received)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class TestRepair:
    def test_backfill_sends_the_missing_slots_to_their_queue(self, aws: OnAws) -> None:
        found = aws("backfill", "--gaps", *RANGE, "--no-wait", "--json")
        assert (found.code, found.json) == (OK, {"asked": 11})
        slots = sorted(read_message(body).window.start for body in aws.bodies(aws.backfill))
        assert slots == [at(number) for number in sorted(GONE)]
        assert aws.bodies(aws.queue) == []

    def test_backfill_waits_until_the_function_has_collected(
        self, aws: OnAws, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(CollectorFunction, "look_seconds", 0.1)
        with collecting(aws):
            found = aws("backfill", "--gaps", *RANGE, "--json")
        assert found.code == OK, found.err
        assert (found.json["asked"], found.json["stored"]) == (11, 11)
        assert "the Collector function collects them" in found.err

    def bury(self, aws: OnAws, *numbers: int) -> None:
        SqsQueue(aws.dead).send([PlannedMessage(message_for_slot(at(number), CALLS), 0) for number in numbers])

    def test_dead_letters_are_listed_again_and_again(self, aws: OnAws) -> None:
        self.bury(aws, *range(200, 215))
        for _ in range(2):  # looking does not hide them from the next look
            found = aws("dead-letters", "list", "--json")
            assert (found.code, found.json["total"]) == (OK, 15)
        letter = found.json["deadLetters"][0]
        assert (letter["metricName"], letter["slotTime"]) == ("calls", "2025-12-02T09:17:50Z")
        assert (letter["diedAt"], "Collector's log" in letter["reason"]) == (None, True)
        assert aws("dead-letters", "show", "calls", "2025-12-02T09:17:50Z").code == OK

    def test_dead_letters_go_back_as_messages_to_be_backfilled(self, aws: OnAws) -> None:
        self.bury(aws, 99, *range(200, 212))
        found = aws("dead-letters", "redrive", "--from", "2025-12-02T09:10:00Z", "--json")
        assert found.json == {"redriven": 12, "kept": 0}
        assert sorted(read_message(body).window.start for body in aws.bodies(aws.backfill)) == [
            at(number) for number in range(200, 212)
        ]
        assert [read_message(body).window.start for body in aws.bodies(aws.dead)] == [at(99)]

    def test_dead_letters_can_be_forgotten(self, aws: OnAws) -> None:
        self.bury(aws, 99, 200)
        assert aws("dead-letters", "purge", "--yes", "--json").json == {"purged": 2}
        assert aws.bodies(aws.dead) == []

    def test_what_is_no_schedule_message_is_said_and_let_alone(self, aws: OnAws) -> None:
        sqs_at(aws.endpoint).send_message(QueueUrl=aws.dead, MessageBody="hello")
        self.bury(aws, 99)
        found = aws("dead-letters", "purge", "--yes")
        assert "let alone, because they are no schedule messages: 1 dead letter" in found.err
        assert aws.bodies(aws.dead) == ["hello"]


class TestMistakes:
    def test_an_unknown_metric(self, aws: OnAws) -> None:
        found = aws("query", "cals")
        assert found.code == USAGE
        assert found.err == "kizami: METRIC: 'cals' is not known here; did you mean calls?\n"

    def test_a_table_that_is_not_there(self, aws: OnAws) -> None:
        found = aws("query", "calls", "--table", "NoSuchTable")
        assert (found.code, found.out) == (FAILURE, "")
        assert "ResourceNotFoundException" in found.err
        assert len(found.err.splitlines()) == 1

    def test_a_name_that_no_table_can_have(self, aws: OnAws) -> None:
        found = aws("query", "calls", "--table", "no such table")
        assert found.code == CONFIGURATION
        assert found.err.startswith("kizami: AI_METRICS_TABLE_NAME: must be 3 to 255 letters")

    @pytest.mark.parametrize("verb", [["query", "calls"], ["backfill", "--gaps", "--no-wait"], ["status"]])
    def test_an_aws_that_cannot_be_reached(
        self, aws: OnAws, monkeypatch: pytest.MonkeyPatch, verb: list[str]
    ) -> None:
        lead_to("http://127.0.0.1:9", monkeypatch)
        found = aws(*verb)
        assert (found.code, found.out) == (UNREACHABLE, "")
        assert "Unreachable: http://127.0.0.1:9" in found.err
        assert len(found.err.splitlines()) == 1

    def test_a_queue_that_cannot_be_reached(self, aws: OnAws, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9")
        assert aws("dead-letters", "list").code == UNREACHABLE
        sqs_client().close()

    def test_without_the_aws_parts_one_line_says_how_to_get_them(
        self, aws: OnAws, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kizami.cli.backends.find_spec", lambda name: None)
        found = aws("status")
        assert found.code == CONFIGURATION
        line = "kizami: --backend aws: needs botocore, which is not installed; pip install 'kizami[aws]'\n"
        assert found.err == line
