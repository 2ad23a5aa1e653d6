"""The daemon: three threads, of which loop owns time and sockets, writer the disk, and active_targets files.

a minute ─▶ sender (its plan) ─▶ write_batch ─▶ writer ─▶ store/statements: messages on the queue
writer ─▶ live messages five seconds ahead, retried and backfilled ones by waiting_lines ─▶ loop
loop ─▶ agenda (until its moment) ─▶ collector ─▶ host_limits (may it leave now?) ─▶ http/fetcher ─▶ the API
an answer ─▶ collector ─▶ a record, a retry (failures/) or a dead letter ─▶ write_batch ─▶ writer ─▶ store/
what is durable now: writer ─▶ loop ─▶ whoever shows it

active_targets  what is polled now, at which place of its interval, and the thread that reads the configuration
options         the limits, as the flags of `kizami up` set them
machine         what it takes from the machine: chance, threads, the network; a simulator gives its own
catch_up        what a stop, a sleep or a jump of the clock has missed ─▶ store/backfill_queue
failures/       when a failed request is tried again, which targets are blocked, failures told without a flood
sealer          what was stored long enough ago ─▶ store/history
drain           the same loop for a while, for `kizami backfill` without a daemon
"""
