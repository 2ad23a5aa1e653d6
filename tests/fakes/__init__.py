"""Stand-ins for what the code under test calls or is called by.

ports, sqlite_records     the ports in memory, and records written as the daemon's writer does
aggregation               the batch's stores in memory, and a users API that answers as told
polled_api, fault_server  APIs that answer, or misbehave on order
host_rooms, full_pipe     what the loop would tell of its hosts; a reader that has stopped
"""
