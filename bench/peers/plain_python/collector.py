"""A peer: the Collector as plain Python is mostly written, requests and a boto3 resource in each invocation."""

import json
import os

import boto3
import requests
from botocore.exceptions import ClientError


def handler(event, context):
    table = boto3.resource("dynamodb").Table(os.environ["AI_METRICS_TABLE_NAME"])
    for record in event["Records"]:
        message = json.loads(record["body"])
        url = os.environ["AI_API_BASE_URL"] + "/response_count"
        response = requests.get(url, params={"from": message["from"], "to": message["to"]}, timeout=10)
        response.raise_for_status()
        data = response.json()
        item = {"metricName": "ai_response_count", "slotTime": message["from"], "count": data["count"]}
        try:
            table.put_item(Item=item, ConditionExpression="attribute_not_exists(slotTime)")
            print(json.dumps({"message": "stored", **item}))
        except ClientError as e:
            if e.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            print(json.dumps({"message": "duplicate", **item}))
