"""Oracles of what stands beside the records, each told of everything that happens there.

alerts (what receivers hear, against what the store says of incidents)
backups (what each of them has to hold, and whether it does)
"""
