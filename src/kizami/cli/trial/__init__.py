"""One request of a target, step by step: what `kizami try` does.

stated_target (what NAME and the options say) ─▶ trial (the window, the request, the answer, the record or failure)
    ─▶ trial_text, trial_json (how that is shown) ─▶ toml_text (what to write into kizami.toml)

shown_request   the request as it was sent, its secrets as ••••
"""
