// One life of a Node.js function in the benchmark; it does what invoke.py does.
import { readFileSync, writeSync } from "node:fs";

const [module, eventFile, warmUp, measured, results] = process.argv.slice(2);
const { handler } = await import(`./${module}.mjs`);
const event = JSON.parse(readFileSync(eventFile, "utf8"));
await handler(event);
writeSync(Number(results), "first\n");
for (let i = 0; i < Number(warmUp); i++) await handler(event);
const started = process.cpuUsage();
for (let i = 0; i < Number(measured); i++) await handler(event);
const { user, system } = process.cpuUsage(started);
const kilobytes = Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
const figures = { warm_cpu_ms: (user + system) / 1000 / Number(measured), peak_rss_mb: kilobytes / 1024 };
writeSync(Number(results), JSON.stringify(figures) + "\n");
process.exit(0);
