"""How verbs show things: data to stdout, words to stderr.

a verb ─▶ printing (words, JSON), tables (as wide as the terminal) ─▶ colours
status ─▶ status_text (a table of metrics, the verdict, who fails and why)
query ─▶ records_with_gaps (counted as they pass, with the gaps between them) ─▶ printing, record_formats
query --every ─▶ figure_tables (a row for each stretch) ─▶ printing
export ─▶ record_formats, figure_formats (CSV, JSON lines, Parquet)
backup, restore ─▶ page_progress (how far a copy has come)
chart ─▶ plot (slots drawn together into columns)
`kizami up` ─▶ live_view on a terminal, else record_lines ─▶ unblocked_output (nobody waits for a slow reader),
    and at its end run_summary
"""
