"""What a month on AWS comes to: how often each part is used, times its list price (pure).

targets, settings ─▶ deployment (what is deployed, and what a month of it makes: messages, calls, bytes)
    ─▶ bill (part by part, each with its quantity) ◀── prices (dated), assumptions (what cannot be counted)
capacity: how many writes a second a table is given, which the constructs of kizami/cdk/ ask too
"""
