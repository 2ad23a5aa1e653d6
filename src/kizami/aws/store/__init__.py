"""What is kept on AWS, each over client/json_client.

sender, reconciler ─▶ sqs_queue ─▶ SQS             collector ─▶ metric_table ─▶ DynamoDB
aws/home.py ─▶ queues (all of a deployed system: how full, and past slots asked for again) ─▶ sqs_queue
aws/home.py ─▶ slot_cache (what has been read of the table) ─▶ metric_table
aws/home.py ─▶ dead_letter_cache (what has been seen) ─▶ dead_letters (looked at, redriven, purged) ─▶ SQS
aws/home.py ─▶ slot_states (what became of each slot) ─▶ slot_cache or table_slots
an open page ─▶ asked_slots (what it has asked for again); a verb ─▶ table_slots (asks the table, keeps nothing)
"""
