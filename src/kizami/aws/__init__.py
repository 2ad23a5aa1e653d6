"""The home on AWS: the functions, what they keep and call, and the port over a deployed stack.

    EventBridge, each minute ─▶ sender ─▶ store/sqs_queue ─▶ SQS ─▶ collector
    collector ─▶ client/polled_api ─▶ the API; its answer ─▶ collector ─▶ store/metric_table ─▶ DynamoDB
    EventBridge, every 5 minutes ─▶ reconciler (what was due less the table) ─▶ the backfill queue ─▶ collector
    EventBridge, each hour ─▶ aggregation_dispatcher ─▶ SQS ─▶ aggregation ─▶ kizami/aggregation/batch.py
    API Gateway ─▶ mock_api ─▶ kizami/mock_api/responder.py

What a function is told: settings and aggregation_settings (by the environment), deliveries (by an SQS event),
invocation (how much time is left). store/ is what is kept, client/ the calls. infra/ deploys all of it.

    home   the port kizami/home/port.py over a deployed stack, for cli/ and web/; places says where that is,
           queue_worker who collects
    costs  what a month of it comes to

Bundles, one message for many targets, come here: made by sender, taken apart by collector.
"""
