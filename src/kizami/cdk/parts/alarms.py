"""How an alarm of ours is made: it says what is wrong, and tells when it begins and when it is over."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

MINUTE, FIVE_MINUTES = Duration.minutes(1), Duration.minutes(5)
BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
SILENCE_IS_BAD = cloudwatch.TreatMissingData.BREACHING
SILENCE_IS_GOOD = cloudwatch.TreatMissingData.NOT_BREACHING


class Alarms(Construct):
    """Alarms that speak through one topic, if there is one; `made` is all of them."""

    def __init__(self, scope: Construct, id: str, topic: sns.ITopic | None) -> None:
        super().__init__(scope, id)
        self._topic = topic
        if topic is not None:
            let_alarms_publish(topic)
        self.made: list[cloudwatch.Alarm] = []

    def add(
        self,
        id: str,
        description: str,
        metric: cloudwatch.IMetric,
        *,
        above: float | None = None,
        below: float | None = None,
        periods: int = 1,
    ) -> None:
        """An alarm that rings when the metric is out of bounds; where it must not fall, silence rings too."""
        alarm = cloudwatch.Alarm(
            self,
            id,
            alarm_description=description,
            metric=metric,
            threshold=above if above is not None else below or 0,
            comparison_operator=ABOVE if above is not None else BELOW,
            treat_missing_data=SILENCE_IS_GOOD if above is not None else SILENCE_IS_BAD,
            evaluation_periods=periods,
        )
        if self._topic is not None:
            alarm.add_alarm_action(actions.SnsAction(self._topic))
            alarm.add_ok_action(actions.SnsAction(self._topic))
        self.made.append(alarm)


def let_alarms_publish(topic: sns.ITopic) -> None:
    """Allow the alarms of this account to publish, also where the topic has a key of yours.

    Any policy, also one that only denies (`enforce_ssl`), replaces the policy by which SNS lets alarms publish.
    CDK cannot change the policies of an imported topic or key.
    """
    _allow_cloudwatch(topic, ["sns:Publish"], topic.topic_arn)
    if topic.master_key is not None:
        _allow_cloudwatch(topic.master_key, ["kms:Decrypt", "kms:GenerateDataKey*"], "*")


def _allow_cloudwatch(owner: sns.ITopic | kms.IKey, allowed: list[str], resource: str) -> None:
    owner.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=allowed,
            resources=[resource],
            conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
        )
    )
