"""Stored slots of long ago: sealed a span at a time into few bytes, and read like those that are rows.

writing   sealing (rows that are old enough) ─▶ kizami/core/sealed_spans.py (columns into bytes)
                                             ─▶ sealed (the spans of the file)
giving up expiry (what is older than is kept), free_space (the file gets smaller again)
reading   stored_slots (a metric's slots, unsealed ones beside sealed ones), figures (between any moments),
          unsealed (what is still rows), sums (of all metrics in a range)
"""
