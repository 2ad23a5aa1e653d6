"""What `kizami sql` does: SQL over a home, whichever it is, with nothing that could be written to.

the verb ─▶ session (a connection to no file, that only reads) ─▶ records_table, list_tables (over the home's port)
         ─▶ results (as a table, JSON or CSV)
         ─▶ shell (one statement after another, on a terminal)
slot_bounds: what a comparison with a slot time leaves to be read
"""
