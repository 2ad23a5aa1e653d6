"""What `kizami doctor` looks at: machine (SQLite, the file, the clock), then targets (each asked once)."""
