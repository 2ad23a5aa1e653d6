"""The mock "AI employee" API: a REST API, stage `prod`, in front of one function (Requirement 5)."""

from __future__ import annotations

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.foundation import Foundation
from infra.parts.findings import acknowledge
from infra.parts.functions import make_function
from kizami.core.targets.target import SecretReference

TIMEOUT_SECONDS = 10
PATHS = ("response_count", "users", "health")


class MockApi(Construct):
    """Open as in the seeds; in production it asks for an API key that only the Secrets Manager knows."""

    def __init__(self, scope: Construct, id: str, foundation: Foundation) -> None:
        super().__init__(scope, id)
        self.function = make_function(
            self,
            "Function",
            foundation,
            handler="kizami.aws.mock_api.handler",
            description="The mock AI employee API",
            timeout_seconds=TIMEOUT_SECONDS,
            environment={},
        )
        self.api = apigateway.RestApi(
            self,
            "Api",
            rest_api_name="AI Employee Mock API",
            description="Deterministic counts and users to test the collecting and the aggregation with",
            deploy_options=apigateway.StageOptions(stage_name="prod"),
            cloud_watch_role=False,
        )
        integration = apigateway.LambdaIntegration(self.function, allow_test_invoke=False)
        for path in PATHS:
            self.api.root.add_resource(path).add_method(
                "GET", integration, api_key_required=foundation.settings.production
            )
        self.api_key = self._add_key() if foundation.settings.production else None
        _acknowledge(self)

    def _add_key(self) -> SecretReference:
        secret = secretsmanager.Secret(
            self,
            "ApiKey",
            description="The API key that the Collector and the Aggregation send to the mock API",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=40, exclude_punctuation=True
            ),
        )
        # The template holds a reference that CloudFormation resolves, never the key itself.
        key = self.api.add_api_key("Key", value=secret.secret_value.unsafe_unwrap())
        plan = self.api.add_usage_plan("Usage")
        plan.add_api_key(key)
        plan.add_api_stage(stage=self.api.deployment_stage)
        acknowledge(secret, {"SMG4": "A new value takes a new API key: both are rotated by a deployment."})
        return SecretReference("secretsmanager", secret.secret_arn)


def _acknowledge(mock: MockApi) -> None:
    made_up = "What it answers is made up: there is nothing to protect. In production an API key is required."
    logged = "The function logs every request itself; API Gateway's logs need an account-wide role."
    checked = "The function checks every parameter and answers 400 with the reason."
    acknowledge(mock, {"APIG1": logged, "APIG2": checked, "APIG6": logged})
    acknowledge(mock, {"APIG3": made_up, "APIG4": made_up, "COG4": made_up})
