"""A peer: the Sender as plain Python is mostly written, with a boto3 resource made in each invocation."""

import json
import os
from datetime import datetime, timedelta

import boto3


def handler(event, context):
    queue = boto3.resource("sqs").Queue(os.environ["QUEUE_URL"])
    base = datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%SZ").replace(second=0)
    for i in range(12):
        start = base + timedelta(seconds=5 * i)
        end = start + timedelta(seconds=5)
        body = {"from": start.strftime("%Y-%m-%dT%H:%M:%SZ"), "to": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
        try:
            queue.send_message(MessageBody=json.dumps(body), DelaySeconds=5 * i)
            print(json.dumps({"message": "sent", **body}))
        except Exception as e:
            print(json.dumps({"message": "failed", "error": str(e), **body}))
