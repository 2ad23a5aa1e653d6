"""What `kizami doctor` looks at: machine (SQLite, the file, the clock), targets (each asked once), alerts."""
