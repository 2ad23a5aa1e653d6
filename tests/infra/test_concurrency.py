"""However many messages wait, the account has room for Sender and reconciler; else synth refuses it."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aws_here.template import Template, synthesize
from kizami.cdk.concurrency import KEPT_FREE, LEAST, MOST, divide, require_shares
from kizami.cdk.settings import Settings
from kizami.core.errors import ConfigurationError

BUNDLES = {1_000: 10, 100_000: 1_000}  # of a hundred targets


def many(directory: Path, targets: int, interval: str = "5s") -> str:
    config = directory / "kizami.toml"
    table = '[[targets]]\nname = "m{0}"\nurl = "https://m{0}.example"\ninterval = "{1}"\n'
    config.write_text("".join(table.format(number, interval) for number in range(targets)))
    return str(config)


def bounds(template: Template) -> dict[str, int | None]:
    """The bound of each queue's consumers, by the output that gives the queue's URL."""
    outputs = ("QueueUrl", "BackfillQueueUrl", "AggregationQueueUrl")
    queues = {template.output_id(name): name for name in outputs if name in template.document["Outputs"]}
    mappings = [m["Properties"] for m in template.resources("AWS::Lambda::EventSourceMapping").values()]
    return {
        queues[mapping["EventSourceArn"]["Fn::GetAtt"][0]]: mapping.get("ScalingConfig", {}).get(
            "MaximumConcurrency"
        )
        for mapping in mappings
    }


@pytest.mark.parametrize(
    ("account", "targets", "shares"),
    [(10, 1_000, (4, 2, 2)), (1_000, 1_000, (16, 10, 4)), (1_000, 100_000, (500, 200, 100))],
)
def test_live_slots_retries_and_old_slots_have_shares_of_their_own(
    account: int, targets: int, shares: tuple[int, ...]
) -> None:
    intervals = [5] * BUNDLES[targets]
    found = require_shares(Settings(account_concurrency=account), intervals, one_queue=False)
    assert astuple(found) == (*shares, 0)


@given(
    account=st.integers(4, 3_000),
    intervals=st.lists(st.sampled_from([1, 5, 60, 3600]), min_size=1, max_size=300),
    stated=st.fixed_dictionaries(
        {},
        optional={
            name: st.integers(LEAST, MOST)
            for name in ("collector_concurrency", "backfill_concurrency", "aggregation_concurrency")
        },
    ),
    aggregation=st.booleans(),
    one_queue=st.booleans(),
)
def test_what_is_not_refused_leaves_room_and_the_account_that_a_refusal_names_is_the_least_that_does(
    account: int, intervals: list[int], stated: dict[str, int], aggregation: bool, one_queue: bool
) -> None:
    def shares_in(account: int) -> tuple[int, ...]:
        settings = Settings(account_concurrency=account, aggregation=aggregation, **stated)  # type: ignore[arg-type]
        return astuple(require_shares(settings, intervals, one_queue))

    try:
        shares = shares_in(account)
    except ConfigurationError as refused:
        least = int(refused.problem.partition("account_concurrency=")[2].partition(",")[0])
        assert least > account
        shares = shares_in(account := least)
        with pytest.raises(ConfigurationError):
            shares_in(least - 1)
    assert sum(shares) + KEPT_FREE <= account
    assert all(LEAST <= share <= MOST for share in shares if share)
    assert [bool(share) for share in shares] == [True, not one_queue, not one_queue, aggregation]


def test_a_new_account_is_too_small_for_100_000_targets_and_the_refusal_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError) as refused:
        require_shares(Settings(), [5] * BUNDLES[100_000], one_queue=False)
    assert str(refused.value) == (
        "context account_concurrency: 10 functions at once are too few for 1,000 bundles of targets, with 2 kept"
        " for Sender and reconciler: raise the account's quota to 400 or more (docs/operations.md, First"
        " deployment) and set account_concurrency=400"
    )


def test_what_is_stated_must_fit_into_the_account_too() -> None:
    with pytest.raises(ConfigurationError, match=r"set account_concurrency=516, or lower collector_concurrency$"):
        require_shares(Settings(collector_concurrency=500), [5, 5], one_queue=False)
    stated = Settings(account_concurrency=20, collector_concurrency=3, backfill_concurrency=5)
    shares = require_shares(stated, [5, 5], one_queue=False)
    assert (shares.live, shares.backfill) == (3, 5)


def test_live_slots_get_what_stated_shares_of_others_leave() -> None:
    settings = Settings(account_concurrency=20, backfill_concurrency=9)
    assert divide(20, 2, settings).live == 20 - KEPT_FREE - 4 - 9


def test_the_mappings_of_several_targets_have_their_shares_and_too_many_targets_are_refused(
    tmp_path: Path,
) -> None:
    config = many(tmp_path, 500)
    assert bounds(synthesize(config=config)) == {"QueueUrl": 4, "BackfillQueueUrl": 2}
    assert bounds(synthesize(config=config, account_concurrency="1000")) == {"QueueUrl": 16, "BackfillQueueUrl": 4}
    one_queue = synthesize(config=config, backfill_queue="false")
    assert list(bounds(one_queue).values()) == [8]
    with pytest.raises(ConfigurationError, match=r"^context account_concurrency: 4 functions at once are too few"):
        synthesize(config=config, account_concurrency="4")


def test_one_target_has_all_but_what_sender_and_reconciler_need() -> None:
    assert list(bounds(synthesize()).values()) == [8]
    shared = synthesize(aggregation="true")
    assert [bounds(shared)[queue] for queue in ("BackfillQueueUrl", "AggregationQueueUrl")] == [6, 2]


def test_one_target_has_no_bound_that_would_keep_pollers_at_its_queue_in_an_account_with_room() -> None:
    assert list(bounds(synthesize(account_concurrency="1000")).values()) == [None]
    stated = synthesize(account_concurrency="1000", collector_concurrency="5")
    assert list(bounds(stated).values()) == [5]


def test_the_template_says_how_many_it_counts_on_for_the_preflight() -> None:
    metadata = synthesize(account_concurrency="1000").document["Metadata"]
    assert metadata["kizami"] == {"account_concurrency": 1000}


def test_a_table_of_many_writes_is_warm_from_its_first_minute(tmp_path: Path) -> None:
    config = many(tmp_path, 3_500, "1s")
    table = synthesize(config=config, account_concurrency="1000").by_output("MetricsTableName")
    assert table["WarmThroughput"] == {"WriteUnitsPerSecond": 8_000}
    stated = synthesize(config=config, account_concurrency="1000", warm_writes="5000")
    assert stated.by_output("MetricsTableName")["WarmThroughput"] == {"WriteUnitsPerSecond": 5_000}
    provisioned = synthesize(config=config, account_concurrency="1000", capacity="provisioned")
    assert "WarmThroughput" not in provisioned.by_output("MetricsTableName")
