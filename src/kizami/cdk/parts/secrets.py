"""Which secrets a function may read: exactly those that it is told the names of, or those below their folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aws_cdk import Stack, Token
from aws_cdk import aws_lambda as lambda_

from kizami.cdk.parts.findings import acknowledge
from kizami.cdk.parts.functions import allow, allow_key_arns
from kizami.core.errors import ConfigurationError
from kizami.core.targets.references import SecretReference

ACTIONS = {"secretsmanager": "secretsmanager:GetSecretValue", "ssm": "ssm:GetParameter"}
MOST_NAMED = 30  # a role's policies have 10,240 characters in all
_COMPLETE = re.compile(r"-[A-Za-z0-9]{6}\Z")  # by which AWS, too, tells an ARN from a partial one


def allow_secrets(
    function: lambda_.Function, secrets: Iterable[SecretReference], key_arns: Sequence[str] = ()
) -> None:
    """Let the function read the secrets and parameters that are referred to, also if encrypted with those keys.

    Of a kind that has too many for a policy, it may read all that are in the folders (`prod/…`) of those named
    so. An ARN is always granted alone, since nothing says that its neighbours are meant too.
    """
    stack = Stack.of(function)
    named = {SecretReference(secret.kind, secret.id) for secret in secrets}
    for kind, action in ACTIONS.items():
        some = sorted((secret for secret in named if secret.kind == kind), key=str)
        folded = [secret for secret in some if _has_folder(secret)] if len(some) > MOST_NAMED else []
        alone = [secret for secret in some if secret not in folded]
        folders = folders_of([secret.name for secret in folded], MOST_NAMED - len(alone))
        if alone:
            allow(function, [action], [secret_arn(secret, stack) for secret in alone])
        if folders:
            _allow_folders(function, kind, action, folders)
        if some:
            allow_decryption(function, key_arns, kind)


def allow_decryption(function: lambda_.Function, key_arns: Sequence[str], kind: str) -> None:
    """Let the function decrypt secrets of a kind with keys of yours: AWS's own keys need no permission."""
    region = Stack.of(function).region
    for arn in key_arns:
        if not Token.is_unresolved(region) and f":kms:{region}:" not in arn:
            problem = (
                f"{arn} is not in {region}, where the secrets and so the keys they are encrypted with must be"
            )
            raise ConfigurationError("context secret_keys", problem)
    allow_key_arns(function, key_arns, kind, ["kms:Decrypt"])


def _is_arn(secret: SecretReference) -> bool:
    return secret.id.startswith("arn:") or Token.is_unresolved(secret.id)


def _has_folder(secret: SecretReference) -> bool:
    return not _is_arn(secret) and "/" in secret.name.strip("/")


def folders_of(names: Iterable[str], room: int) -> list[str]:
    """The folders that the names are in, as few as there is room for, else ConfigurationError."""
    found = sorted({name.strip("/").rpartition("/")[0] for name in names})
    if len(found) > room:
        found = sorted({folder.partition("/")[0] for folder in found})
    if len(found) > room:
        raise ConfigurationError(
            "kizami.toml",
            f"refers to more than {MOST_NAMED} secrets by ARN or outside of common folders: a role has no room for"
            " all; name them like kizami/NAME, or keep many in one: secretsmanager:ID#KEY",
        )
    return found


def _allow_folders(function: lambda_.Function, kind: str, action: str, folders: Iterable[str]) -> None:
    stack = Stack.of(function)
    arns = [secret_arn(SecretReference(kind, f"{folder}/*"), stack).removesuffix("-??????") for folder in folders]
    allow(function, [action], arns)
    if function.role:
        reason = "There are too many secrets to name each of them; these are in folders of their own."
        acknowledge(function.role, {f"IAM5[Resource::{_as_found(arn, stack)}]": reason for arn in arns})


def _as_found(arn: str, stack: Stack) -> str:
    """An ARN as cdk-nag writes it in a finding."""
    parts = {stack.partition: "AWS::Partition", stack.account: "AWS::AccountId", stack.region: "AWS::Region"}
    for value, name in parts.items():
        arn = arn.replace(value, f"<{name}>") if Token.is_unresolved(value) else arn
    return arn


def secret_arn(secret: SecretReference, stack: Stack) -> str:
    """The one secret or parameter that the reference names, as a policy must name it.

    Secrets Manager adds a hyphen and six characters to a name. Permissions are about that whole ARN, although a
    request, and so a reference, may leave them out.
    """
    if Token.is_unresolved(secret.id):
        return secret.id
    if secret.id.startswith("arn:"):
        is_partial = secret.kind == "secretsmanager" and not _COMPLETE.search(secret.id)
        return f"{secret.id}-??????" if is_partial else secret.id
    place = f"arn:{stack.partition}:{secret.kind}:{stack.region}:{stack.account}"
    if secret.kind == "secretsmanager":
        return f"{place}:secret:{secret.id}-??????"
    return f"{place}:parameter/{secret.id.lstrip('/')}"
