"""The mock "AI employee" API that the Collector asks: one pure responder, and its HTTP server."""
