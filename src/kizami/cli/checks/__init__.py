"""What `kizami doctor` looks at: machine (SQLite, the file, the clock), targets (each asked once), alerts.

windows   whether an answer depends on the window, which `kizami try` looks at as well
"""
