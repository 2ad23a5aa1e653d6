"""What is kept on AWS, each over client/json_client.

sender, reconciler ─▶ sqs_queue ─▶ SQS             collector ─▶ metric_table ─▶ DynamoDB
bundles/ ─▶ record_batches (25 records a call), tick_ledger (what of each bundle's ticks is stored) ─▶ DynamoDB
aws/backend.py ─▶ queues (all of a deployed system: how full, and past slots asked for again) ─▶ sqs_queue
aws/backend.py ─▶ stored_slots (what is stored) ─▶ ledger_slots (of many targets, since it began) ─▶ tick_ledger
aws/backend.py ─▶ slot_cache (what has been read of the table) ─▶ metric_table
aws/backend.py ─▶ dead_letter_cache (what has been seen) ─▶ dead_letters (looked at, redriven, purged) ─▶ SQS
aws/backend.py ─▶ slot_states (what became of each slot, what was asked for again) ─▶ slot_cache or table_slots
collector ─▶ block_guard (whether a target is asked at all) ─▶ block_items (blocked targets) ─▶ DynamoDB
a verb ─▶ table_slots (asks the table, keeps nothing)
"""
