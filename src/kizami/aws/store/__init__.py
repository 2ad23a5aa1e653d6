"""What is kept on AWS: metric_table (DynamoDB); sqs_queue, queues, dead_letters (SQS).

slot_cache and dead_letter_cache are what an open page has read of them.
"""
