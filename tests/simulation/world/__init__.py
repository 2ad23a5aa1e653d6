"""A world in which the daemon runs as in production, and nothing happens that the seed has not drawn.

plan (targets, faults and their moments, drawn from a seed)
  └─▶ simulation (one seed: lives of the daemon, faults, people's verbs, a quiet end)
        ├─▶ old_files (a database of an earlier run, where the seed begins with one)
        ├─▶ process (a life of `kizami up`: the production code) on machine (its clock, chance, threads)
        │     ├─▶ timeline (simulated time; one runs at a time), threads (what waits in it)
        │     ├─▶ network (requests and answers) ─▶ apis (right answers, and moods)
        │     ├─▶ receivers (who is told of incidents)
        │     └─▶ disk (what was synced; full, failing, slow; what a crash leaves)
        ├─▶ people (verbs, from processes of their own)
        ├─▶ oracle, oracles/ (everything that happens, held against every promise)
        └─▶ trace (a line an event, the same for the same seed)
"""
