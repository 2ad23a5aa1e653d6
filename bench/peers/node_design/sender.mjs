// A peer: the seeds' Sender on Node.js with AWS SDK v3, its client made once, twelve single sends.
import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";

const INTERVAL_SECONDS = 5;
const MESSAGES_PER_MINUTE = 12;
const client = new SQSClient({});

const iso = (date) => date.toISOString().replace(/\.\d{3}Z$/, "Z");

export async function handler(event) {
  const queueUrl = process.env.QUEUE_URL;
  if (!queueUrl) throw new Error("QUEUE_URL is not set");
  const base = new Date(event.time);
  base.setUTCSeconds(0, 0);
  for (let slot = 0; slot < MESSAGES_PER_MINUTE; slot++) {
    const delay = slot * INTERVAL_SECONDS;
    const from = new Date(base.getTime() + delay * 1000);
    const to = new Date(from.getTime() + INTERVAL_SECONDS * 1000);
    const message = { from: iso(from), to: iso(to) };
    try {
      await client.send(
        new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: JSON.stringify(message), DelaySeconds: delay }),
      );
      console.log(JSON.stringify({ level: "INFO", message: "sent", delay, ...message }));
    } catch (error) {
      console.error(JSON.stringify({ level: "ERROR", message: "failed", delay, error: String(error), ...message }));
    }
  }
}
