// One life of a Node.js function in the benchmark; the same as invoke.py, results on file descriptor 3.
import { readFileSync, writeSync } from "node:fs";

const [module, eventFile, warmUp, measured] = process.argv.slice(2);
const { handler } = await import(`./${module}.mjs`);
const event = JSON.parse(readFileSync(eventFile, "utf8"));
await handler(event);
writeSync(3, "first\n");
for (let i = 0; i < Number(warmUp); i++) await handler(event);
const started = process.cpuUsage();
for (let i = 0; i < Number(measured); i++) await handler(event);
const { user, system } = process.cpuUsage(started);
const kilobytes = Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
writeSync(3, JSON.stringify({ warm_cpu_ms: (user + system) / 1000 / Number(measured), peak_rss_mb: kilobytes / 1024 }) + "\n");
process.exit(0);
