"""The mock "AI employee" API: a REST API, stage `prod`, in front of one function (Requirement 5).

By setting it is an HTTP API, at less than a third of the price, at the root of its own host.
"""

from __future__ import annotations

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_apigatewayv2 as apigatewayv2
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from kizami.cdk.foundation import Foundation
from kizami.cdk.parts.findings import acknowledge
from kizami.cdk.parts.functions import make_function
from kizami.cdk.settings import DEFAULT_STACK_NAME
from kizami.core.targets.references import SecretReference

TIMEOUT_SECONDS = 10
API_NAME = "AI Employee Mock API"
DESCRIPTION = "Deterministic counts and users to test the collecting and the aggregation with"
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
        settings = foundation.settings
        is_default = settings.stack_name == DEFAULT_STACK_NAME
        self._name = API_NAME if is_default else f"{API_NAME} of {settings.stack_name}"
        self.api_key: SecretReference | None = None
        self.url = self._make_http() if settings.mock_api == "http" else self._make_rest(settings.production)
        _acknowledge(self)

    def _make_rest(self, asks_for_key: bool) -> str:
        api = apigateway.RestApi(
            self,
            "Api",
            rest_api_name=self._name,
            description=DESCRIPTION,
            deploy_options=apigateway.StageOptions(stage_name="prod"),
            endpoint_types=[apigateway.EndpointType.REGIONAL],  # its callers are in the region
            cloud_watch_role=False,
        )
        integration = apigateway.LambdaIntegration(self.function, allow_test_invoke=False)
        for path in PATHS:
            api.root.add_resource(path).add_method("GET", integration, api_key_required=asks_for_key)
        if asks_for_key:
            self.api_key = self._add_key(api)
        return api.url

    def _make_http(self) -> str:
        api = apigatewayv2.HttpApi(self, "HttpApi", api_name=self._name, description=DESCRIPTION)
        integration = integrations.HttpLambdaIntegration(
            "Integration",
            self.function,
            payload_format_version=apigatewayv2.PayloadFormatVersion.VERSION_1_0,  # as a REST API's
        )
        for path in PATHS:
            api.add_routes(path=f"/{path}", methods=[apigatewayv2.HttpMethod.GET], integration=integration)
        return str(api.url)

    def _add_key(self, api: apigateway.RestApi) -> SecretReference:
        secret = secretsmanager.Secret(
            self,
            "ApiKey",
            description="The API key that the Collector and the Aggregation send to the mock API",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=40, exclude_punctuation=True
            ),
        )
        # The template holds a reference that CloudFormation resolves, never the key itself.
        key = api.add_api_key("Key", value=secret.secret_value.unsafe_unwrap())
        plan = api.add_usage_plan("Usage")
        plan.add_api_key(key)
        plan.add_api_stage(stage=api.deployment_stage)
        acknowledge(secret, {"SMG4": "A new value takes a new API key: both are rotated by a deployment."})
        return SecretReference("secretsmanager", secret.secret_arn)


def _acknowledge(mock: MockApi) -> None:
    made_up = "What it answers is made up: there is nothing to protect. In production an API key is required."
    logged = "The function logs every request itself; API Gateway's logs need an account-wide role."
    checked = "The function checks every parameter and answers 400 with the reason."
    acknowledge(mock, {"APIG1": logged, "APIG2": checked, "APIG6": logged})
    acknowledge(mock, {"APIG3": made_up, "APIG4": made_up, "COG4": made_up})
