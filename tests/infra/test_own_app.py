"""SubMinuteSchedule in somebody's own CDK app, and cdk-nag on ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from aws_here.synthesizer import ask_for_app
from aws_here.template import Template, read_template
from kizami.core.errors import ConfigurationError

HEAD = """
from aws_cdk import App, Stack, Validations, aws_dynamodb as dynamodb, aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks
from kizami.cdk import Settings, SubMinuteSchedule
from pathlib import Path

app = App(outdir=str(Path(__file__).with_name("out")))
stack = Stack(app, "Shop")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "app.py"


def synthesized(program: Path, text: str) -> Template:
    """What an app of these lines comes to."""
    program.write_text(f"{HEAD}{text}\napp.synth()\n")
    return read_template(ask_for_app(program))


def test_one_line_polls_an_api_of_ones_own(program: Path) -> None:
    template = synthesized(
        program, 'SubMinuteSchedule(stack, "Orders", api_base_url="https://orders.example.com")'
    )
    assert template.environment("collector")["AI_API_BASE_URL"] == "https://orders.example.com"
    assert template.environment("sender")["WINDOW_LAG_SECONDS"] == "5"  # a real API: after the window has ended
    assert template.the("AWS::DynamoDB::Table")["BillingMode"] == "PAY_PER_REQUEST"
    assert "AWS::ApiGateway::RestApi" not in {r["Type"] for r in template.document["Resources"].values()}


def test_it_writes_to_a_table_that_is_there_already(program: Path) -> None:
    text = """
table = dynamodb.Table.from_table_name(stack, "Table", "ShopMetrics")
SubMinuteSchedule(stack, "Orders", api_base_url="https://orders.example.com", table=table)
"""
    template = synthesized(program, text)
    assert template.environment("collector")["AI_METRICS_TABLE_NAME"] == "ShopMetrics"
    assert not template.resources("AWS::DynamoDB::Table")
    (target,) = [target for action, target in template.grants("collector") if action == "dynamodb:PutItem"]
    assert target.endswith(":table/ShopMetrics")


def test_several_targets_come_as_a_config_and_every_value_can_be_set(program: Path) -> None:
    text = """
schedule = SubMinuteSchedule(
    stack,
    "Everything",
    config='[[targets]]\\nname = "orders"\\nurl = "https://orders.example.com"\\ninterval = "10s"\\n',
    settings=Settings(table_name="ShopMetrics", visibility_seconds=300, architecture="x86_64"),
)
assert isinstance(schedule.scheduling.queue, sqs.Queue)
"""
    template = synthesized(program, text)
    assert template.function("collector")["Architectures"] == ["x86_64"]
    assert {q["Properties"].get("VisibilityTimeout") for q in template.resources("AWS::SQS::Queue").values()} == {
        None,  # the dead letters
        300,
    }


def test_without_an_api_or_a_config_there_is_nothing_to_poll(program: Path) -> None:
    with pytest.raises(ConfigurationError, match="SubMinuteSchedule Nothing: needs an api_base_url or a config"):
        synthesized(program, 'SubMinuteSchedule(stack, "Nothing")')


def test_two_schedules_of_one_stack_share_nothing_and_ring_for_themselves(program: Path) -> None:
    text = """
for name in ("Orders", "Stock"):
    schedule = SubMinuteSchedule(stack, name, api_base_url=f"https://{name.lower()}.example.com")
    assert len(schedule.add_alarms().made) == 13
Validations.of(app).add_plugins(AwsSolutionsChecks(app))
"""
    template = synthesized(program, text)
    tables = template.resources("AWS::DynamoDB::Table").values()
    assert [table["Properties"].get("TableName") for table in tables] == [None, None]
    alarms = template.resources("AWS::CloudWatch::Alarm")
    coverage = [alarm["Properties"] for id, alarm in alarms.items() if "Coverage" in id]
    names = [dimension["Value"] for alarm in coverage for dimension in alarm["Dimensions"]]
    assert names == ["Shop-Orders", "Shop-Stock"]
    functions = template.resources("AWS::Lambda::Function").values()
    assert {f["Properties"]["Environment"]["Variables"].get("KIZAMI_STACK") for f in functions} == {None, *names}


def test_nag_has_teeth_a_bare_queue_fails_the_synthesis(program: Path) -> None:
    text = 'sqs.Queue(stack, "Queue")\nValidations.of(app).add_plugins(AwsSolutionsChecks(app))'
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        synthesized(program, text)
    assert "AwsSolutions-SQS3" in (program.parent / "out/validation-report.json").read_text()
