"""What the stack does beyond the seeds, and the seeds' own figures where the context asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from aws_here.template import HANDLERS, Template, all_policies, beyond_logs, event_sources, flat, synthesize

SEED_FIGURES = {
    "visibility_seconds": "30",
    "max_receives": "0",
    "retain_data": "false",
    "point_in_time_recovery": "false",
    "backfill_queue": "true",
}


@pytest.fixture(scope="module")
def template() -> Template:
    return synthesize(aggregation="true")


@pytest.fixture(scope="module")
def bare() -> Template:
    return synthesize(**SEED_FIGURES)


@pytest.mark.parametrize("queue", ["QueueUrl", "BackfillQueueUrl"])
def test_a_message_stays_hidden_for_six_times_the_collectors_timeout(template: Template, queue: str) -> None:
    assert template.by_output(queue)["VisibilityTimeout"] >= 6 * template.function("collector")["Timeout"]


@pytest.mark.parametrize("queue", ["QueueUrl", "BackfillQueueUrl"])
def test_a_message_becomes_a_dead_letter_after_five_receives(template: Template, queue: str) -> None:
    dead_letters = {"Fn::GetAtt": [template.output_id("DeadLetterQueueUrl"), "Arn"]}
    assert template.by_output(queue)["RedrivePolicy"] == {
        "deadLetterTargetArn": dead_letters,
        "maxReceiveCount": 5,
    }


def test_dead_letters_are_kept_for_two_weeks(template: Template) -> None:
    assert template.by_output("DeadLetterQueueUrl")["MessageRetentionPeriod"] == 14 * 86_400


def test_queues_are_encrypted_and_refuse_plain_http(template: Template) -> None:
    queues = template.resources("AWS::SQS::Queue")
    assert all(queue["Properties"]["SqsManagedSseEnabled"] for queue in queues.values())
    denied = {
        policy["Properties"]["Queues"][0]["Ref"]
        for policy in template.resources("AWS::SQS::QueuePolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny" and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    }
    assert denied == queues.keys()


def test_every_table_outlives_the_stack_and_can_be_restored_to_any_second(template: Template) -> None:
    for table in template.resources("AWS::DynamoDB::Table").values():
        # But for the very deployment that made it: what failed can be repeated.
        assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
        assert table["Properties"]["DeletionProtectionEnabled"] is False
        assert table["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_old_slots_of_one_target_share_its_queue_and_are_spread_over_minutes(template: Template) -> None:
    assert template.output_id("BackfillQueueUrl") == template.output_id("QueueUrl")
    assert template.environment("reconciler")["KIZAMI_SPREAD_SECONDS"] == "300"
    assert len(event_sources(template, "collector")) == 1


def test_the_backfill_queue_is_capped_so_that_live_slots_go_first(bare: Template) -> None:
    template = bare
    assert "KIZAMI_SPREAD_SECONDS" not in template.environment("reconciler")
    arn = {"Fn::GetAtt": [template.output_id("BackfillQueueUrl"), "Arn"]}
    mappings = [m["Properties"] for m in template.resources("AWS::Lambda::EventSourceMapping").values()]
    (backfill,) = [mapping for mapping in mappings if mapping["EventSourceArn"] == arn]
    assert backfill["ScalingConfig"] == {"MaximumConcurrency": 2}
    assert backfill["BatchSize"] == 1


def test_the_reconciler_waits_until_a_live_message_can_no_longer_be_on_its_way(template: Template) -> None:
    queue = template.by_output("QueueUrl")
    longest = 60 + queue["VisibilityTimeout"] * queue["RedrivePolicy"]["maxReceiveCount"]
    assert int(template.environment("reconciler")["KIZAMI_GRACE_SECONDS"]) >= longest


def test_each_function_may_do_exactly_what_it_uses(template: Template) -> None:
    queue, backfill = template.output_id("QueueUrl"), template.output_id("BackfillQueueUrl")
    table = template.output_id("MetricsTableName")
    polling = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
    assert beyond_logs(template, "sender") == {("sqs:SendMessage", queue)}
    assert beyond_logs(template, "collector") == {
        ("dynamodb:PutItem", table),
        *((action, source) for action in polling for source in (queue, backfill)),
    }
    (topic,) = template.resources("AWS::SNS::Topic")
    assert beyond_logs(template, "reconciler") == {
        ("dynamodb:Query", table),
        *((f"dynamodb:{change}Item", table) for change in ("Put", "Update", "Delete")),  # of incidents only
        ("sns:Publish", f"{{{topic}}}"),
        ("sqs:SendMessage", backfill),
        ("sqs:GetQueueAttributes", backfill),
    }
    assert beyond_logs(template, "mock_api") == set()


@pytest.mark.parametrize("name", HANDLERS)
def test_a_function_writes_json_to_a_log_group_of_its_own_that_forgets(template: Template, name: str) -> None:
    logging = template.function(name)["LoggingConfig"]
    group = logging["LogGroup"]["Ref"]
    assert logging["LogFormat"] == "JSON"
    assert template.document["Resources"][group]["Properties"]["RetentionInDays"] == 30
    assert {grant for grant in template.grants(name) if grant[0].startswith("logs:")} == {
        ("logs:CreateLogStream", group),
        ("logs:PutLogEvents", group),
    }


def test_logs_can_be_cut_down_to_warnings_but_never_the_line_that_carries_the_metrics() -> None:
    quiet = synthesize(log_level="warn", collector_batch_size="10")
    assert quiet.function("collector")["LoggingConfig"]["ApplicationLogLevel"] == "WARN"
    assert quiet.function("collector")["LoggingConfig"]["SystemLogLevel"] == "WARN"
    assert quiet.function("reconciler")["LoggingConfig"]["ApplicationLogLevel"] == "INFO"


@pytest.mark.parametrize(("level", "expected"), [("info", "INFO"), ("warn", "INFO"), ("debug", "DEBUG")])
def test_lambdas_own_report_of_each_invocation_can_be_kept(level: str, expected: str) -> None:
    reported = synthesize(platform_reports="true", log_level=level)
    for name in ("sender", "collector", "reconciler"):
        levels = reported.function(name)["LoggingConfig"]
        is_pinned = name == "reconciler"  # its level is always info: its lines carry the metrics
        assert levels["SystemLogLevel"] == ("INFO" if is_pinned else expected)
        assert levels["ApplicationLogLevel"] == ("INFO" if is_pinned else level.upper())


def test_a_batch_of_several_messages_gives_back_only_those_that_failed(template: Template) -> None:
    batched = synthesize(log_level="warn", collector_batch_size="10")
    for stack, size in ((template, 1), (batched, 10)):
        for mapping in event_sources(stack, "collector"):
            assert mapping["BatchSize"] == size
            assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


def test_no_role_has_a_wildcard_but_for_the_companies_keys(template: Template) -> None:
    for statement in all_policies(template):
        assert "*" not in str(statement["Action"])
        if "*" in str(statement["Resource"]):
            assert flat(statement["Resource"]).endswith(":secret:kizami/aggregation/*")


def test_every_alarm_of_the_runbook_is_there_and_tells_somebody(template: Template) -> None:
    alarms = [alarm["Properties"] for alarm in template.resources("AWS::CloudWatch::Alarm").values()]
    topic = {"Ref": next(iter(template.resources("AWS::SNS::Topic")))}
    assert {alarm["MetricName"] for alarm in alarms} == {
        "ApproximateNumberOfMessagesVisible",
        "ApproximateAgeOfOldestMessage",
        "Errors",
        "Throttles",
        "Invocations",
        "Duration",
        "ApiMilliseconds",
        "SuccessfulRequestLatency",
        "Coverage",
        "AggregationErrorLines",
    }
    assert all(alarm["AlarmActions"] == alarm["OKActions"] == [topic] for alarm in alarms)


@pytest.mark.parametrize("name", ["SenderMissing", "ReconcilerMissing", "Coverage"])
def test_silence_rings_where_a_value_must_not_fall(template: Template, name: str) -> None:
    alarm = alarm_of(template, name)
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    assert alarm["TreatMissingData"] == "breaching"


@pytest.mark.parametrize("minutes", [5, 60])
@pytest.mark.parametrize("monitoring", ["full", "minimal"])
def test_a_reconciler_that_does_not_run_or_fails_rings_after_three_of_its_periods(
    monitoring: str, minutes: int
) -> None:
    template = synthesize(monitoring=monitoring, reconcile_minutes=str(minutes))
    function = [{"Name": "FunctionName", "Value": {"Ref": template.function_id("reconciler")}}]
    missing, errors = (alarm_of(template, f"Reconciler{kind}") for kind in ("Missing", "Errors"))
    assert missing["Dimensions"] == errors["Dimensions"] == function
    assert (missing["MetricName"], missing["Statistic"], missing["Threshold"]) == ("Invocations", "Sum", 1)
    assert (missing["Period"], missing["EvaluationPeriods"]) == (3 * 60 * minutes, 1)
    assert missing["TreatMissingData"] == "breaching"
    assert (errors["MetricName"], errors["Threshold"], errors["TreatMissingData"]) == ("Errors", 0, "notBreaching")
    assert (errors["Period"], errors["EvaluationPeriods"]) == (60 * minutes, 3)


def test_the_coverage_alarm_is_of_all_targets_together_so_that_one_host_that_is_down_hides_no_other(
    template: Template,
) -> None:
    assert alarm_of(template, "Coverage")["MetricName"] == "Coverage"


def alarm_of(template: Template, name: str) -> dict[str, Any]:
    alarms = template.resources("AWS::CloudWatch::Alarm").items()
    (found,) = [alarm["Properties"] for id, alarm in alarms if id[:-8] == f"ScheduleAlarms{name}"]
    return dict(found)


def test_dead_letters_ring_at_the_first_one(template: Template) -> None:
    name = {"Fn::GetAtt": [template.output_id("DeadLetterQueueUrl"), "QueueName"]}
    alarms = [alarm["Properties"] for alarm in template.resources("AWS::CloudWatch::Alarm").values()]
    (alarm,) = [alarm for alarm in alarms if {"Name": "QueueName", "Value": name} in alarm.get("Dimensions", ())]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")


def test_the_dashboard_shows_lateness_coverage_calls_errors_capacity_and_queues(template: Template) -> None:
    body = str(template.the("AWS::CloudWatch::Dashboard")["DashboardBody"])
    titles = (
        "Lateness",
        "Coverage",
        "Invocations",
        "Errors",
        "Queue",
        "dead letters",
        "DynamoDB",
        "Aggregation: points",
    )
    for title in titles:
        assert title in body


def test_no_widget_scans_a_log(template: Template) -> None:
    body = str(template.the("AWS::CloudWatch::Dashboard")["DashboardBody"])
    assert '"type":"metric"' in body
    assert '"type":"log"' not in body


def test_the_seeds_own_figures_come_by_context(bare: Template) -> None:
    queue = bare.by_output("QueueUrl")
    assert queue["VisibilityTimeout"] == 30
    assert "RedrivePolicy" not in queue
    assert "DeadLetterQueueUrl" not in bare.document["Outputs"]
    for table in bare.resources("AWS::DynamoDB::Table").values():
        assert table["DeletionPolicy"] == "Delete"
        assert table["Properties"]["DeletionProtectionEnabled"] is False
        assert table["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": False}


def test_the_mock_is_asked_at_the_seeds_time_and_a_real_api_after_its_window_has_ended(template: Template) -> None:
    assert template.environment("sender")["WINDOW_LAG_SECONDS"] == "0"
    real = synthesize(api_base_url="https://api.example.com/v1")
    assert real.environment("sender")["WINDOW_LAG_SECONDS"] == "5"
    assert real.environment("reconciler")["WINDOW_LAG_SECONDS"] == "5"
    assert real.environment("collector")["AI_API_BASE_URL"] == "https://api.example.com/v1"
