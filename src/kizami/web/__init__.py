"""The dashboard: every slot on one page, its JSON twin, and the actions that repair what is seen there."""

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080
