"""What kizami.toml says about alerts (pure).

[[alerts]] ─▶ settings ─▶ a Rule each: to whom, when (conditions), about which targets, after which wait
[[maintenance]] ─▶ maintenance: when nobody is told
public_url, language, heartbeat ─▶ settings
both name targets by patterns
"""
