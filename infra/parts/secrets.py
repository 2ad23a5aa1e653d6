"""Which secrets a function may read: exactly those that it is told the names of."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Stack, Token
from aws_cdk import aws_lambda as lambda_

from infra.parts.functions import allow
from kizami.core.targets.target import SecretReference


def allow_secrets(function: lambda_.Function, secrets: Iterable[SecretReference]) -> None:
    """Let the function read the secrets and parameters that are referred to."""
    for secret in sorted(set(secrets), key=str):
        action = "secretsmanager:GetSecretValue" if secret.kind == "secretsmanager" else "ssm:GetParameter"
        allow(function, [action], [secret_arn(secret, Stack.of(function))])


def secret_arn(secret: SecretReference, stack: Stack) -> str:
    """The one secret or parameter that the reference names."""
    if secret.name.startswith("arn:") or Token.is_unresolved(secret.name):
        return secret.name
    if secret.kind == "secretsmanager":
        # Secrets Manager adds six characters of its own to the name.
        return f"arn:{stack.partition}:secretsmanager:{stack.region}:{stack.account}:secret:{secret.name}-??????"
    return f"arn:{stack.partition}:ssm:{stack.region}:{stack.account}:parameter/{secret.name.lstrip('/')}"
