"""A world in which the functions on AWS run as in production, and nothing happens that the seed has not drawn.

plan (a stack, faults and their moments, drawn from a seed)
  └─▶ simulation (one seed: deployment, faults, a quiet end) ─▶ deployment (files and environment of a version)
        ├─▶ pace (how fast the time of records passes: constants of the production code)
        ├─▶ functions (Lambda, EventBridge and what calls for messages) ─▶ containers (memory, threads, event loop)
        │     └─▶ surroundings (what the production code finds: clock, chance, threads, log)
        │           └─▶ network (each call, and what becomes of it) ─▶ apis (polled ones, and that of users)
        │                 ├─▶ sqs (messages delayed, hidden, doubled, dead)
        │                 └─▶ dynamodb (items, all at once or not at all) ─▶ expressions (conditions, updates),
        │                       partiql (statements), capacity (sizes and billed units)
        ├─▶ slot_looks (what every view tells of the slots that are stored)
        └─▶ oracle (everything that happens, held against every promise) ─▶ ticks_oracle (that of a plan's bundles)

Time, traces, moods of hosts and shrinking are those of ../world.
"""
