"""backfill (what it would do) and dead-letters: their words and what they change."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kizami.cli.exit_codes import CONFIGURATION, FAILURE, OK, USAGE
from kizami.local.store.database import open_database
from kizami.local.store.pauses import pause_metric
from kizami.local.store.reader import Reader
from kizami.platform.clock import SystemClock
from programs.command import Command
from samples.database import at, bury_slots, make_database, queue_slots

SLOTS = 720
NOW = at(SLOTS) + timedelta(seconds=30)
DATABASE = Path("kizami.db")
HOUR = ("--from", "2025-12-02T09:00:00Z", "--to", "2025-12-02T10:00:00Z")


@pytest.fixture
def kizami(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """`calls` lacks slots 99 and 300 to 309, `errors` nothing."""
    monkeypatch.chdir(tmp_path)
    for name in ("KIZAMI_CONFIG", "KIZAMI_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SystemClock, "now", lambda self: NOW)
    gone = {99, *range(300, 310)}
    make_database(DATABASE, {"calls": [n for n in range(SLOTS) if n not in gone], "errors": range(SLOTS)})
    return Command(capsys)


def pending(metric: str) -> list[int]:
    with Reader.opened(DATABASE) as reader:
        found = reader.pending(metric, at(-100_000), at(100_000))
        return [(slot.slot - at(0)) // timedelta(seconds=5) for slot in found]


class TestBackfill:
    def test_a_dry_run_shows_what_would_be_asked_for_and_changes_nothing(self, kizami: Command) -> None:
        found = kizami("backfill", "--gaps", *HOUR, "--dry-run")
        assert found.code == OK
        assert found.out.splitlines() == [
            "metric  from                  to                    slots  length",
            "calls   2025-12-02T09:08:15Z  2025-12-02T09:08:20Z      1      5s",
            "calls   2025-12-02T09:25:00Z  2025-12-02T09:25:50Z     10     50s",
        ]
        assert found.err == "kizami: 11 slots to ask for; nothing was done\n"
        assert pending("calls") == []

    def test_a_dry_run_as_json(self, kizami: Command) -> None:
        queue_slots(DATABASE, "calls", [99], NOW)
        found = kizami("backfill", "calls", *HOUR, "--dry-run", "--json")
        document = found.json
        assert (document["missing"], document["waiting"], len(document["gaps"])) == (10, 1, 1)
        assert found.err == "kizami: 10 slots to ask for, 1 slot on the queue already; nothing was done\n"

    def test_without_waiting_the_slots_are_queued_once_however_often_it_is_repeated(self, kizami: Command) -> None:
        found = kizami("backfill", "--gaps", *HOUR, "--no-wait")
        assert (found.code, found.out) == (OK, "")
        assert found.err == "kizami: 11 slots put on the queue, for `kizami up` to collect\n"
        assert kizami("backfill", "--gaps", *HOUR, "--no-wait", "--json").json == {"asked": 0}
        assert pending("calls") == [99, *range(300, 310)]

    def test_a_target_that_can_only_say_now_is_left_out_and_said(self, kizami: Command) -> None:
        tables = [f'[[targets]]\nname = "{name}"\nurl = "http://127.0.0.1:9"\n' for name in ("errors", "calls")]
        Path("kizami.toml").write_text("".join(tables) + "backfill = false\n")
        found = kizami("backfill", "--gaps", *HOUR, "--no-wait")
        assert found.code == OK
        assert found.err.splitlines() == [
            "kizami: left out: calls; with backfill = false what was missed stays missing",
            "kizami: 0 slots put on the queue, for `kizami up` to collect",
        ]
        assert pending("calls") == []
        assert kizami("gaps", "calls", *HOUR, "--json").json["missing"] == 11

    def test_gaps_begin_where_polling_began_but_a_range_may_lie_before(self, kizami: Command) -> None:
        day = ("--from", "2025-12-02T08:59:00Z", "--to", "2025-12-02T09:01:00Z")
        assert kizami("backfill", "errors", "--gaps", *day, "--dry-run", "--json").json["missing"] == 0
        assert kizami("backfill", "errors", *day, "--dry-run", "--json").json["missing"] == 12

    def test_a_past_that_joins_the_present_is_expected_from_then_on(self, kizami: Command) -> None:
        kizami("backfill", "errors", "--from", "2025-12-02T08:59:00Z", "--no-wait")
        with Reader.opened(DATABASE) as reader:
            assert reader.metrics()["errors"].first_slot == at(-12)

    def test_a_past_that_stands_apart_is_not(self, kizami: Command) -> None:
        apart = ("--from", "2025-12-01T09:00:00Z", "--to", "2025-12-01T09:01:00Z")
        assert kizami("backfill", "errors", *apart, "--no-wait", "--json").json == {"asked": 12}
        with Reader.opened(DATABASE) as reader:
            assert reader.metrics()["errors"].first_slot == at(0)

    def test_a_range_that_begins_before_what_is_kept_is_refused(self, kizami: Command) -> None:
        connection = open_database(DATABASE)
        connection.execute("UPDATE metrics SET keep_seconds = 1800 WHERE name = 'calls'")
        connection.close()
        found = kizami("backfill", "calls", *HOUR, "--no-wait")
        line = "--from: 'calls' keeps nothing from so long ago; begin at 2025-12-02T09:30:35Z or later"
        assert (found.code, found.out, found.err) == (USAGE, "", f"kizami: {line}\n")
        # What is not kept is no gap, either: slots 300 to 309 are from more than half an hour ago.
        assert kizami("backfill", "--gaps", *HOUR, "--dry-run", "--json").json["missing"] == 0

    def test_it_wants_to_be_told_which_slots(self, kizami: Command) -> None:
        found = kizami("backfill")
        assert (found.code, found.out) == (USAGE, "")
        assert found.err.startswith("kizami: Say which slots: --gaps, or --from and --to, or --last")

    def test_what_no_run_should_take_on_is_refused(self, kizami: Command) -> None:
        found = kizami("backfill", "calls", "--from", "1970-01-01T00:00:00Z", "--dry-run")
        assert found.code == USAGE
        assert "slots are too many for one run" in found.err

    def test_a_metric_that_no_target_asks_for_cannot_be_collected_here(self, kizami: Command) -> None:
        found = kizami("backfill", "calls", "--gaps", *HOUR)
        assert (found.code, found.out) == (CONFIGURATION, "")
        assert "'calls' is not an enabled target" in found.err
        assert pending("calls") == []

    def test_nothing_to_do_is_done_at_once(self, kizami: Command) -> None:
        found = kizami("backfill", "errors", "--gaps", *HOUR, "--json")
        assert (found.code, found.json) == (OK, {"asked": 0, "stored": 0, "gaps": []})


class TestDeadLetters:
    @pytest.fixture(autouse=True)
    def dead(self, kizami: Command) -> None:
        bury_slots(DATABASE, "calls", [300, 301], "status 500, expected 200", NOW)
        bury_slots(DATABASE, "calls", [99], "no complete answer within 10 s", NOW - timedelta(hours=1))

    def test_they_are_listed_with_their_reasons_newest_first(self, kizami: Command) -> None:
        found = kizami("dead-letters", "list")
        assert found.out.splitlines() == [
            "metric  slot                  died                  tried  reason",
            "calls   2025-12-02T09:25:05Z  2025-12-02T10:00:30Z     5x  status 500, expected 200",
            "calls   2025-12-02T09:25:00Z  2025-12-02T10:00:30Z     5x  status 500, expected 200",
            "calls   2025-12-02T09:08:15Z  2025-12-02T09:00:30Z     5x  no complete answer within 10 s",
        ]
        assert found.err == "kizami: 3 dead letters\n"

    def test_a_limit_says_what_it_leaves_out(self, kizami: Command) -> None:
        found = kizami("dead-letters", "list", "--limit", "1", "--json")
        assert (found.json["total"], len(found.json["deadLetters"])) == (3, 1)
        assert found.err == "kizami: 3 dead letters; --limit 0 lists the other 2\n"
        assert len(kizami("dead-letters", "list", "--limit", "0", "--json").json["deadLetters"]) == 3

    def test_they_are_chosen_by_metric_and_by_the_time_of_their_slots(self, kizami: Command) -> None:
        assert kizami("dead-letters", "list", "errors", "--json").json["total"] == 0
        document = kizami("dead-letters", "list", "calls", "--to", "2025-12-02T09:25:00Z", "--json").json
        assert [letter["slotTime"] for letter in document["deadLetters"]] == ["2025-12-02T09:08:15Z"]

    def test_one_is_shown_whole(self, kizami: Command) -> None:
        found = kizami("dead-letters", "show", "calls", "2025-12-02T18:08:15+09:00", "--json")
        assert found.json == {
            "metricName": "calls",
            "slotTime": "2025-12-02T09:08:15Z",
            "intervalSeconds": 5,
            "receives": 5,
            "backfill": True,
            "sentAt": "2025-12-02T08:59:30Z",
            "diedAt": "2025-12-02T09:00:30Z",
            "reason": "no complete answer within 10 s",
        }
        plain = kizami("dead-letters", "show", "calls", "2025-12-02T09:08:15Z").out
        assert "reason           no complete answer within 10 s" in plain

    def test_a_slot_that_is_not_dead_is_said_to_be_not(self, kizami: Command) -> None:
        found = kizami("dead-letters", "show", "calls", "2025-12-02T09:00:00Z")
        assert (found.code, found.out) == (FAILURE, "")
        assert found.err == "kizami: calls 2025-12-02T09:00:00Z is not a dead letter\n"

    def test_they_go_back_to_the_queue(self, kizami: Command) -> None:
        found = kizami("dead-letters", "redrive", "calls", "--from", "2025-12-02T09:20:00Z", "--json")
        assert found.json == {"redriven": 2, "kept": 0}
        assert found.err == "kizami: 2 dead letters back on the queue\n"
        assert pending("calls") == [300, 301]
        assert kizami("dead-letters", "list", "--json").json["total"] == 1

    @pytest.mark.parametrize("how", ["paused", "disabled", "removed"])
    def test_those_of_a_target_that_is_not_polled_stay(self, kizami: Command, how: str) -> None:
        if how == "paused":
            connection = open_database(DATABASE)
            pause_metric(connection, "calls", NOW)
            connection.close()
        else:
            name = "calls" if how == "disabled" else "errors"
            Path("kizami.toml").write_text(f'[[targets]]\nname = "{name}"\nurl = "http://a.b"\nenabled = false\n')
        found = kizami("dead-letters", "redrive", "calls", "--json")
        assert found.json == {"redriven": 0, "kept": 3}
        assert "3 dead letters not: the target is paused, removed or has backfill = false" in found.err
        assert kizami("dead-letters", "list", "--json").json["total"] == 3
        assert pending("calls") == []

    def test_they_are_forgotten_only_when_that_is_confirmed(self, kizami: Command) -> None:
        found = kizami("dead-letters", "purge")
        assert (found.code, found.out) == (USAGE, "")
        assert "no terminal to ask on; add --yes" in found.err
        assert kizami("dead-letters", "list", "--json").json["total"] == 3

    @pytest.mark.parametrize(("answer", "left"), [("n\n", 3), ("y\n", 0)])
    def test_on_a_terminal_it_asks(
        self, kizami: Command, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
    ) -> None:
        monkeypatch.setattr("kizami.cli.verbs.dead_letters.sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: answer.strip())
        found = kizami("dead-letters", "purge")
        assert found.code == (130 if left else OK)
        assert kizami("dead-letters", "list", "--json").json["total"] == left

    def test_forgotten_slots_are_missing_again(self, kizami: Command) -> None:
        assert kizami("gaps", "calls", *HOUR, "--json").json["missing"] == 8
        assert kizami("dead-letters", "purge", "--yes", "--json").json == {"purged": 3}
        assert kizami("gaps", "calls", *HOUR, "--json").json["missing"] == 11

    def test_an_unknown_metric_is_refused(self, kizami: Command) -> None:
        found = kizami("dead-letters", "redrive", "cals")
        assert found.code == USAGE
        assert found.err == "kizami: METRIC: 'cals' is not known here; did you mean calls?\n"
