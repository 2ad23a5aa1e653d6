"""How verbs show things: data to stdout, words to stderr.

a verb ─▶ printing (words, tables, JSON)
query ─▶ records_with_gaps (counted as they pass, with the gaps between them) ─▶ printing, record_formats
export ─▶ record_formats (CSV, JSON lines, Parquet)
chart ─▶ plot (slots drawn together into columns)
`kizami up` ─▶ live_view on a terminal, else record_lines ─▶ unblocked_output (nobody waits for a slow reader)
"""
