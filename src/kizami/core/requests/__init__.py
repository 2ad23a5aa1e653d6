"""How a target is asked: what its requests have in common, with the window left open.

urls (what its URL and path may be), query, headers
    ─▶ request_template (all that its requests have in common) ─▶ core/collector fills the window in

templates        texts with times of the window in them, {from} and {to-1s:unix}
time_forms       how a time is written
misspelt_times   what a placeholder that is none was meant to be
secret_names     which parameters and headers are secrets
"""
