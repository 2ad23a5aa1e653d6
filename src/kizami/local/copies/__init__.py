"""Copies of the database: backups, made while it is used, and what is put back from one.

`kizami backup`, scheduled_backups (a thread of `kizami up`, told by rotation when and which to keep)
    ─▶ backup (refuses, makes, verifies) ─▶ copying (page by page, at one moment of the database)
                                         ─▶ placing (a file appears under its name only when it is whole)
`kizami restore` ─▶ restore (checks the backup, keeps the former database) ─▶ copying, placing
backup_report: what the daemon's last backup came to, beside the database, for `kizami status`
"""
