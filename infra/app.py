"""The CDK app: run by the `cdk` command, or on its own with the context as `name=value` arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.settings import settings_from_context
from infra.stack import DataCollectionSchedulerStack
from kizami.errors import ConfigurationError, KizamiError

CONFIGURATION, CHECK_FAILED = 3, 5  # exit codes as of the command line


def main(arguments: Sequence[str]) -> None:
    """Synthesize; every AwsSolutions finding that nobody acknowledged with a reason fails it."""
    try:
        app = App(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"), context=read_context(arguments))
        settings = settings_from_context(app.node.get_all_context())
        stack = DataCollectionSchedulerStack(app, settings.stack_name, settings)
    except KizamiError as error:
        sys.exit(complain(error))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
        sys.exit(CHECK_FAILED)  # the findings are on stderr
    if "CDK_OUTDIR" not in os.environ:
        sys.stdout.write(f"{app.outdir}/{stack.template_file}\n")


def read_context(arguments: Sequence[str]) -> dict[str, str]:
    """The settings given as `name=value`."""
    for argument in arguments:
        if "=" not in argument:
            raise ConfigurationError("arguments", f"{argument!r} is not of the form name=value")
    return dict(argument.split("=", 1) for argument in arguments)


def complain(error: KizamiError) -> int:
    """Say what is wrong in one line; the answer is the exit code."""
    sys.stderr.write(f"kizami: {error}\n")
    return CONFIGURATION


if __name__ == "__main__":
    main(sys.argv[1:])
