"""Alerts on one machine: looked for, kept in the file, delivered.

`kizami up` ─▶ watch (a thread that looks every 15 s) ─▶ kizami/alerts/ decides
    ─▶ incident_rows (what is kept; a decision and its messages in one transaction) ─▶ outbox
    ─▶ heartbeat (asked each minute while all is well)
outbox ─▶ delivery (a thread for each receiver) ─▶ receivers (what `to` leads to)
       ─▶ calls (a request by libcurl: a webhook), apprise_call ─▶ apprise_program (a process of its own)
log lines of the daemon, orders from outside ─▶ event_rows (the log of events)
verbs, page ─▶ incident_log (the port's: it lists, acknowledges, silences)
"""
