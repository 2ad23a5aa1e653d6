"""What `kizami sql` does: SQL over a backend, whichever it is, with nothing that could be written to.

the verb ─▶ session (a connection to no file, that only reads) ─▶ records_table, list_tables (over the backend)
         ─▶ results (as a table, JSON or CSV)
         ─▶ shell (one statement after another, on a terminal)
slot_bounds: what a comparison with a slot time leaves to be read
"""
