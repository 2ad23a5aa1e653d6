"""What is believed of an answer.

a body and headers, from core/collector ─▶ answer (what it must be) ─▶ values (where its value stands)
    ─▶ numbers (exact ones, in units of so many decimal places)

nearest        what is said of an answer that has something else
other_formats  what an answer is that is not JSON
rate_limits    whether a refusal is a rate limit, and when it ends
excerpts       what a person is shown of an answer
findings       where each value was found, as `kizami try` shows it
"""
