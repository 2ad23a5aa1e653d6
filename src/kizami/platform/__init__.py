"""What is needed of the machine that kizami runs on, whichever backend it is.

--config, $KIZAMI_CONFIG, ./kizami.toml ─▶ config_file ─▶ core/config
the file is saved, or SIGHUP ─▶ config_watch ─▶ config_file again ─▶ the engine
whatever file a setting names ─▶ user_files (regular, not too large, not waited for without end)
a socket ─▶ http_server (an ASGI application in a thread) ─▶ http_connection (a client each, and its time)
             └─▶ http_refusals (when there are no descriptors left for clients)
clock: the wall clock, handed to whatever needs `now`
"""
