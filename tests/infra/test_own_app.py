"""SubMinuteSchedule in somebody's own CDK app, and cdk-nag on ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks
from infra.schedule import SubMinuteSchedule
from infra.settings import Settings

from aws_here.template import Template, read_template
from kizami.core.errors import ConfigurationError


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(outdir=str(tmp_path / "out"))


def synthesized(app: App, stack: Stack) -> Template:
    app.synth()
    return read_template(Path(app.outdir) / stack.template_file)


def test_one_line_polls_an_api_of_ones_own(app: App) -> None:
    stack = Stack(app, "Shop")
    SubMinuteSchedule(stack, "Orders", api_base_url="https://orders.example.com")
    template = synthesized(app, stack)
    assert template.environment("collector")["AI_API_BASE_URL"] == "https://orders.example.com"
    assert template.environment("sender")["WINDOW_LAG_SECONDS"] == "5"  # a real API: after the window has ended
    assert template.the("AWS::DynamoDB::Table")["BillingMode"] == "PAY_PER_REQUEST"
    assert "AWS::ApiGateway::RestApi" not in {r["Type"] for r in template.document["Resources"].values()}


def test_it_writes_to_a_table_that_is_there_already(app: App) -> None:
    stack = Stack(app, "Shop")
    table = dynamodb.Table.from_table_name(stack, "Table", "ShopMetrics")
    SubMinuteSchedule(stack, "Orders", api_base_url="https://orders.example.com", table=table)
    template = synthesized(app, stack)
    assert template.environment("collector")["AI_METRICS_TABLE_NAME"] == "ShopMetrics"
    assert not template.resources("AWS::DynamoDB::Table")
    (target,) = [target for action, target in template.grants("collector") if action == "dynamodb:PutItem"]
    assert target.endswith(":table/ShopMetrics")


def test_several_targets_come_as_a_config_and_every_value_can_be_set(app: App) -> None:
    stack = Stack(app, "Shop")
    schedule = SubMinuteSchedule(
        stack,
        "Everything",
        config='[[targets]]\nname = "orders"\nurl = "https://orders.example.com"\ninterval = "10s"\n',
        settings=Settings(table_name="ShopMetrics", visibility_seconds=300, architecture="x86_64"),
    )
    template = synthesized(app, stack)
    assert isinstance(schedule.scheduling.queue, sqs.Queue)
    assert template.function("collector")["Architectures"] == ["x86_64"]
    assert {q["Properties"].get("VisibilityTimeout") for q in template.resources("AWS::SQS::Queue").values()} == {
        None,  # the dead letters
        300,
    }


def test_without_an_api_or_a_config_there_is_nothing_to_poll(app: App) -> None:
    with pytest.raises(ConfigurationError, match="SubMinuteSchedule Nothing: needs an api_base_url or a config"):
        SubMinuteSchedule(Stack(app, "Shop"), "Nothing")


def test_nag_has_teeth_a_bare_queue_fails_the_synthesis(app: App) -> None:
    stack = Stack(app, "Careless")
    sqs.Queue(stack, "Queue")
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="AwsSolutions-SQS3"):
        app.synth()
