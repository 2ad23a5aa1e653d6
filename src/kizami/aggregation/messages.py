"""What starts a batch: the SQS message that names a company and its key, or where the key is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kizami.aggregation.signing import ApiKey, require_company_id
from kizami.core.errors import InvalidInput
from kizami.core.messages import load_json
from kizami.core.targets.references import SecretReference

MAX_REFERENCE_LENGTH = 512  # a secret's ARN may be this long
_FIELDS = {"CompanyId", "ApiKey", "ApiKeyRef"}


@dataclass(frozen=True, slots=True)
class AggregationMessage:
    """Asks for one company's points to be granted; the key, or a reference to be looked up when it is needed."""

    company_id: str
    key: ApiKey | SecretReference


def read_message(body: str) -> AggregationMessage:
    """The message that `body` writes, else InvalidInput naming the field; nothing that may be a key is quoted."""
    try:
        fields = load_json(body)
    except ValueError as error:
        raise InvalidInput("message", str(error)) from None
    if not isinstance(fields, dict):
        raise InvalidInput("message", "is not a JSON object")
    if not fields.keys() <= _FIELDS:
        raise InvalidInput("message", "has a field other than CompanyId, ApiKey and ApiKeyRef")
    if "CompanyId" not in fields:
        raise InvalidInput("CompanyId", "is missing")
    return AggregationMessage(require_company_id(fields["CompanyId"]), _read_key(fields))


def _read_key(fields: Mapping[str, Any]) -> ApiKey | SecretReference:
    if ("ApiKey" in fields) == ("ApiKeyRef" in fields):
        raise InvalidInput("ApiKey", "or else ApiKeyRef must be given, one of the two")
    return ApiKey(fields["ApiKey"]) if "ApiKey" in fields else read_reference(fields["ApiKeyRef"])


def read_reference(value: object) -> SecretReference:
    """The place of a key, `secretsmanager:ID`: a message must not make the batch read its files or environment."""
    kind, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind != "secretsmanager" or not 0 < len(name) <= MAX_REFERENCE_LENGTH or not name.isprintable():
        raise InvalidInput("ApiKeyRef", "must be secretsmanager: and the secret's name or ARN")
    return SecretReference(kind, name)


def write_message(company_id: str, reference: SecretReference) -> str:
    """The wire form with a reference; nothing here ever writes a key."""
    return json.dumps({"CompanyId": company_id, "ApiKeyRef": str(reference)}, ensure_ascii=False)
