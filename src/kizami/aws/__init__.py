"""The backend on AWS: the functions, what they keep and call, and the port over a deployed stack.

    EventBridge, each minute ─▶ sender ─▶ store/sqs_queue ─▶ SQS ─▶ collector
    collector ─▶ client/polled_api ─▶ the API; its answer ─▶ collector ─▶ store/metric_table ─▶ DynamoDB
    EventBridge, every 5 minutes ─▶ reconciler (what was due less the table) ─▶ the backfill queue ─▶ collector
    EventBridge, each hour ─▶ aggregation_dispatcher ─▶ SQS ─▶ aggregation ─▶ kizami/aggregation/batch.py
    API Gateway ─▶ mock_api ─▶ kizami/mock_api/responder.py

What a function is told: settings and aggregation_settings (by the environment), deliveries (by an SQS event),
invocation (how much time is left). store/ is what is kept, client/ the calls. kizami/cdk/ deploys all of it.

    reconciler ─▶ alerts/ (the look and what follows from it) ─▶ incidents (kept in the table)
                                                            ─▶ alert_delivery (topic, webhooks, heartbeat)
    watching  the same for a backend that answers every question: kizami.alerts.watch in a run of the reconciler
    backend   the port kizami/backend/port.py over a deployed stack, for cli/ and web/; places says where that is,
           queue_worker who collects, known_targets since when which slots are expected
    costs/ what a month of it comes to
    history/ records that do not stay for ever: when they go, and the totals of their hours that remain

Configured targets are kept in ticks (the answers of a bundle to one slot time), as plans say (the members of
bundles, and which plan sends a minute); both stand on dynamodb (calls, pages, batches). Ticks of closed hours are
sealed: sealing moves their values into sealed (spans of metrics, summaries of bundles, figures of days).
A delivery of configured targets:

    collect   a delivery in its order: what is asked, written, sent back; files has the packaged configuration
    admission which members are asked, by the states of their targets, which blocks keeps
    asking    one slot asked of its API; ask_many: many side by side
    returns   what goes back: messages for the retry lane, dead letters

How far each bundle was looked at and sealed is in marks: reconcile goes through bundle_list, looks at what is due,
and asks for what is missing. A run of the reconciler does that, publishes coverage and seals (runs).

The question about slots is answered by slot_answers (newest_slots, record_pieces: two views that go step by step):

    ownership     which bundle holds which slots of a metric; looks: what of them must be read, by their marks
    reading       the requests, ticks before sealed items; rows are the ticks of the original target
    slot_sources  states and values of slots, united from what was read

The port over all that is ticks_backend, which takes the place of backend; a look asks it for a page:

    target_list   the targets of the configuration, and since when their slots are expected
    backfill      past slots are asked for again: ticks say so first, then messages
    queues        how full they are; dead_letters: messages about slots that were given up, each with its reason
    row_states    what rows do not tell of their slots; shared_reads: what the questions of one look share

With more targets than one, bundles/: one message for many of them, made by sender, taken apart by collector, and
looked after by reconciler.
"""
