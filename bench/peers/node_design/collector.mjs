// A peer: the seeds' Collector on Node.js with fetch and AWS SDK v3, its client made once.
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { DynamoDBDocumentClient, PutCommand } from "@aws-sdk/lib-dynamodb";

const client = DynamoDBDocumentClient.from(new DynamoDBClient({}));

async function askApi(from, to) {
  const query = new URLSearchParams({ from, to });
  const response = await fetch(`${process.env.AI_API_BASE_URL}/response_count?${query}`, {
    signal: AbortSignal.timeout(10_000),
  });
  if (response.status !== 200) throw new Error(`status ${response.status}`);
  return response.json();
}

async function store(item) {
  try {
    await client.send(
      new PutCommand({
        TableName: process.env.AI_METRICS_TABLE_NAME,
        Item: item,
        ConditionExpression: "attribute_not_exists(slotTime)",
      }),
    );
    console.log(JSON.stringify({ level: "INFO", message: "stored", ...item }));
  } catch (error) {
    if (error.name !== "ConditionalCheckFailedException") throw error;
    console.log(JSON.stringify({ level: "INFO", message: "duplicate", ...item }));
  }
}

export async function handler(event) {
  for (const record of event.Records) {
    const { from, to } = JSON.parse(record.body);
    try {
      const answer = await askApi(from, to);
      await store({ metricName: "ai_response_count", slotTime: from, count: answer.count });
    } catch (error) {
      console.error(JSON.stringify({ level: "ERROR", message: "not collected", error: String(error), from, to }));
      throw error;
    }
  }
}
