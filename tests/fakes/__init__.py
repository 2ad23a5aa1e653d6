"""Stand-ins for what the code under test calls or is called by.

ports, sqlite_records     the ports in memory, and records written as the daemon's writer does
aggregation               the batch's stores in memory, and a users API that answers as told
polled_api, fault_server  APIs that answer, or misbehave on order
tokens, authority         an OAuth2 client's API with its token endpoint; certificates for a server and its clients
proxy_server              a proxy on the way to them
throttling_proxy          one on the way to AWS, which refuses the first calls
canned_api                the APIs of the recipes, with their documented answers
alert_world               targets that fail and heal as told, and what alerts make of it
watched_backend           a backend in memory, as far as the watch over it asks
host_rooms, full_pipe     what the loop would tell of its hosts; a reader that has stopped
"""
