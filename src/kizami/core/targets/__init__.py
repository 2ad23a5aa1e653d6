"""What is polled.

    a [[targets]] table, read by core/config ─▶ target (a Target, its checks, references in place of its secrets)
        ─▶ urls (what its base URL and path may be) ─▶ core/collector fills the window in

Request templates and value expressions, for targets of any shape, come here.
"""
