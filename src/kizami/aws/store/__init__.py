"""What is kept on AWS: metric_table (DynamoDB); sqs_queue, queues, dead_letters (SQS).

slot_cache, dead_letter_cache and asked_slots are what an open page knows of them; table_slots asks for a verb.
"""
