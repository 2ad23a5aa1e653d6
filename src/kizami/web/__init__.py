"""The dashboard: every slot on one page, the same as JSON, and the actions that repair what is seen there."""

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080
