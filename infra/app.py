"""The CDK app: run by the `cdk` command, or on its own with the context as `name=value` arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from aws_cdk import App, Stack, Validations
from cdk_nag import AwsSolutionsChecks

from infra.context import settings_from_context
from infra.stack import DataCollectionSchedulerStack
from kizami.core.errors import ConfigurationError

CONFIGURATION, CHECK_FAILED = 3, 5  # exit codes as of the command line


def main(arguments: Sequence[str]) -> None:
    """Synthesize into the directory that the `cdk` command names, else into cdk.out."""
    directory = os.environ.get("CDK_OUTDIR")
    try:
        stack = synthesize(read_context(arguments), directory or "cdk.out", os.environ)
    except ConfigurationError as error:
        sys.stderr.write(f"kizami: {error}\n")
        sys.exit(CONFIGURATION)
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
        sys.exit(CHECK_FAILED)  # the findings are on stderr
    if not directory:
        sys.stdout.write(f"cdk.out/{stack.template_file}\n")


def synthesize(context: Mapping[str, str], directory: str, environment: Mapping[str, str] | None = None) -> Stack:
    """The stack, its template written; an AwsSolutions finding that nobody acknowledged with a reason fails it."""
    app = App(outdir=directory, context=dict(context))
    settings = settings_from_context(app.node.get_all_context(), environment)
    stack = DataCollectionSchedulerStack(app, settings.stack_name, settings)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    return stack


def read_context(arguments: Sequence[str]) -> dict[str, str]:
    """The settings given as `name=value`."""
    for argument in arguments:
        if "=" not in argument:
            raise ConfigurationError("arguments", f"{argument!r} is not of the form name=value")
    return dict(argument.split("=", 1) for argument in arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
