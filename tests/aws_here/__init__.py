"""AWS on this machine, from a single call to a whole stack.

local_aws      moto's SQS and DynamoDB, Amazon's DynamoDB Local, tables and queues in them
ministack      a local AWS that deploys the real template and runs its functions
read_queue     a queue as whoever works it off sees it
deployed       a deployment with data in it, as verbs and the page find it
template       that template as tests read it
lambda_events  what Lambda hands to a handler, and its log lines read back
"""
