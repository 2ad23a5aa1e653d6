"""Where a finding of cdk-nag's AwsSolutions rules is accepted: on its construct, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, reasons: Mapping[str, str]) -> None:
    """Accept findings on `construct` and below it; each rule with its reason."""
    rules = [Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason) for rule, reason in reasons.items()]
    Validations.of(construct).acknowledge(*rules)
