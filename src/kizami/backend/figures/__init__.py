"""Counts over time, as figures: so many stored, the lowest, the highest and the sum of each stretch of time.

names and patterns such as `chat/*` ─▶ selection ─▶ the metrics that are meant
a grain such as `1h`, a zone, a range ─▶ edges (the moments between the stretches, summer time or not)
edges ─▶ port: figures (what each backend has between each two edges), put together by gathering
figures, and which slots were expected ─▶ summary (sum, mean, extremes and completeness of each stretch)
    ─▶ report (beside the same stretches some time before) ─▶ wire (JSON, CSV), cli/ (tables, drawings)
"""
