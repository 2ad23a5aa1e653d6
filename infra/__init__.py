"""The backend on AWS as a CDK app: what `make deploy` puts there, made of the constructs in kizami/cdk/.

`cdk`, `make synth` ─▶ app ─▶ context (what the deployment is told, checked) ─▶ stack, which only composes:
    kizami/cdk/schedule.py   the way of the data as one construct
    mock_api     the API that is polled where there is no other
    aggregating  the batch: its schedule, queue, function and tables
    monitoring   the alarms' topic, those of the aggregation, and the dashboard, of CloudWatch
synthesized template ─▶ preflight (compares it with the tables that the account has) ─▶ `cdk deploy`, `cdk import`
"""

import kizami.cdk  # noqa: F401 -- it finds the Node.js that CDK is to run on
