"""kizami (刻み, "in ticks") keeps exactly one record for every time slot of the HTTP APIs it polls.

    core/         what is decided, without doing anything: slots, plans, requests, answers, coverage
    platform/     what is needed of the machine: its clock, kizami.toml, a socket to serve on
    aggregation/  the batch beside the pipeline: a point a day for each user who was detected
    backend/         the port: what a backend can be asked and how it is repaired, and what is made of the answers
    alerts/       what is an incident, who is told of it and in which words
    local/        the backend on one machine: one daemon, one SQLite file
    aws/          the backend on AWS: Lambda functions, SQS, DynamoDB
    cdk/          what deploys them, as constructs of CDK; infra/ is a stack made of these
    mock_api/     the API that is polled where there is no other
    recipes/      ready-made targets for services that many people have
    web/          the page, its JSON API and Prometheus' API, over backend/
    cli/          the `kizami` command, which puts all of it together

Who may know whom (tests/house/imports.py holds them to it): core ◀─ platform, aggregation ◀─ backend ◀─ alerts ◀─
local, aws; web knows backend, neither of the two; cli knows all, and nobody knows cli.

The pipeline starts in cli/verbs/up.py on one machine and in aws/sender.py on AWS, a page's request in
web/server.py; docs/architecture.md follows each from file to file.
"""

__version__ = "0.1.0"
