"""Where a deployed stack has its table and queues: its CloudFormation outputs (for the command line only)."""

from __future__ import annotations

from typing import Any

from kizami.aws.client.account import find_region
from kizami.core.errors import ConfigurationError

DEFAULT_STACK = "DataCollectionSchedulerStack"


def stack_outputs(name: str) -> dict[str, str]:
    """The stack's outputs by name; ConfigurationError if there is no such stack or it may not be read."""
    # CloudFormation does not speak the JSON protocol of our own client, and a verb asks it once at most.
    import botocore.session
    from botocore.exceptions import BotoCoreError, ClientError

    region = find_region()  # botocore itself does not read AWS_REGION
    try:
        client: Any = botocore.session.get_session().create_client("cloudformation", region_name=region)
        (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        problem = error.response["Error"].get("Message", error)
        where = f"asked in {region}; AWS_REGION names another region"
        raise ConfigurationError("--stack", f"{problem} ({where})") from None
    except BotoCoreError as error:
        raise ConfigurationError("--stack", f"{name} cannot be asked: {error}") from None
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", ())}
