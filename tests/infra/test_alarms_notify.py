"""Every alarm can notify: alarm, topic, the topic's policy, and the key that the topic is encrypted with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from aws_here.synthesizer import ask_for_app
from aws_here.template import Template, listed, read_template, synthesize
from samples.written_tables import DOCS

CLOUDWATCH = "cloudwatch.amazonaws.com"
OWN_ACCOUNT = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
KINDS = ("AlarmActions", "OKActions", "InsufficientDataActions")
KEY_ACTIONS = {"kms:Decrypt", "kms:GenerateDataKey*"}
OWN_APP = """
from aws_cdk import App, Stack, aws_kms as kms, aws_sns as sns
from kizami.cdk import Profile, Settings, SubMinuteSchedule
from pathlib import Path

app = App(outdir=str(Path(__file__).with_name("out")))
stack = Stack(app, "Shop")
topic = sns.Topic(stack, "OnCall", enforce_ssl=True, master_key=kms.Key(stack, "Key"))
for name in ("Orders", "Stock"):
    schedule = SubMinuteSchedule(stack, name, api_base_url="https://api.example.com")
    schedule.add_alarms(topic)
    schedule.reconciling.tell(topic)
app.synth()
"""


def refusals(template: Template) -> list[str]:
    """What keeps an action of an alarm from being carried out, as AWS would evaluate the policies."""
    alarms = template.resources("AWS::CloudWatch::Alarm")
    assert alarms
    found = []
    for id, alarm in alarms.items():
        actions = [action for kind in KINDS for action in alarm["Properties"].get(kind, ())]
        assert actions, f"{id} notifies nobody"
        found += [f"{id}: {problem}" for action in actions for problem in topic_problems(template, action["Ref"])]
    return sorted(set(found))


def topic_problems(template: Template, topic: str) -> list[str]:
    """Of one topic: a policy replaces the one that SNS makes, which lets the account's alarms publish."""
    policies = [
        policy["Properties"]["PolicyDocument"]["Statement"]
        for policy in template.resources("AWS::SNS::TopicPolicy").values()
        if {"Ref": topic} in policy["Properties"]["Topics"]
    ]
    problems = []
    statements = [statement for policy in policies for statement in policy]
    if policies and not allows(statements, {"sns:Publish"}, {"Ref": topic}):
        problems.append(f"{topic} refuses sns:Publish")
    key = key_of(template.document["Resources"][topic])
    if key is not None:
        policy = template.document["Resources"][key["Fn::GetAtt"][0]]["Properties"]["KeyPolicy"]
        if not allows(policy["Statement"], KEY_ACTIONS, "*"):
            problems.append(f"{key} refuses {KEY_ACTIONS}")
    return problems


def key_of(topic: dict[str, Any]) -> Any:
    return topic.get("Properties", {}).get("KmsMasterKeyId")


def allows(statements: list[dict[str, Any]], actions: set[str], resource: Any) -> bool:
    """Whether CloudWatch may do all of that for alarms of this account, and for those of no other."""
    granted: set[str] = set()
    for statement in statements:
        is_cloudwatch = statement["Principal"] == {"Service": CLOUDWATCH}
        if not is_cloudwatch or statement["Effect"] != "Allow" or statement["Resource"] != resource:
            continue
        assert statement["Condition"] == OWN_ACCOUNT, "alarms of other accounts could publish"
        granted |= set(listed(statement["Action"]))
    return actions <= granted


def many_targets(directory: Path) -> str:
    config = directory / "kizami.toml"
    tables = (f'[[targets]]\nname = "m{n}"\nurl = "https://m{n}.example"\n' for n in range(3))
    config.write_text("\n".join(tables))
    return str(config)


@pytest.mark.parametrize("monitoring", ["full", "minimal"])
@pytest.mark.parametrize("profile", ["standard", "production"])
def test_every_action_of_every_alarm_is_allowed_by_topic_and_key(profile: str, monitoring: str) -> None:
    template = synthesize(profile=profile, monitoring=monitoring, aggregation="true", alarm_email="me@example.com")
    assert refusals(template) == []
    (topic,) = template.resources("AWS::SNS::Topic").values()
    assert (key_of(topic) is not None) == (profile == "production")


@pytest.mark.parametrize("profile", ["standard", "production"])
def test_the_reconciler_which_publishes_as_itself_may_use_the_topics_key_too(profile: str) -> None:
    template = synthesize(profile=profile)
    (topic,) = template.resources("AWS::SNS::Topic")
    grants = template.grants("reconciler")
    assert ("sns:Publish", f"{{{topic}}}") in grants
    key = key_of(template.document["Resources"][topic])
    if key is not None:
        actions = {action for action, target in grants if target == key["Fn::GetAtt"][0]}
        assert actions == {"kms:GenerateDataKey", "kms:Decrypt"}


@pytest.mark.parametrize("profile", ["standard", "production"])
def test_alarms_of_a_configuration_can_notify_too(profile: str, tmp_path: Path) -> None:
    assert refusals(synthesize(profile=profile, config=many_targets(tmp_path))) == []


def test_a_topic_of_ones_own_app_is_opened_for_its_alarms_once(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(OWN_APP)
    template = read_template(ask_for_app(program))
    assert refusals(template) == []
    (policy,) = template.resources("AWS::SNS::TopicPolicy").values()
    statements = policy["Properties"]["PolicyDocument"]["Statement"]
    assert [statement["Effect"] for statement in statements] == ["Deny", "Allow"]
    (key,) = template.resources("AWS::KMS::Key")
    assert ("kms:GenerateDataKey", key) in template.grants("Orders.reconciler")


def test_the_example_of_the_document_notifies(tmp_path: Path) -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    program = tmp_path / "app.py"
    program.write_text(example.replace("App()", f"App(outdir={str(tmp_path / 'out')!r})"))
    assert refusals(read_template(ask_for_app(program))) == []


def test_the_guide_tries_an_alarm_that_the_template_has() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    (prefix,) = re.findall(r"--alarm-name-prefix (\S+)", text)
    stack, _, alarm = prefix.partition("-")
    assert "aws cloudwatch set-alarm-state" in text
    template = synthesize()
    assert template.directory.joinpath(f"{stack}.template.json").exists()
    assert len([id for id in template.resources("AWS::CloudWatch::Alarm") if id.startswith(alarm)]) == 1
