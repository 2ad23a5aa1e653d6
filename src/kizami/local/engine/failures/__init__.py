"""What follows from a failed request: collector ─▶ each of these, by the policy of core/blocking.

backoff          when its slot is tried again
blocked_targets  whom to ask for nothing but probes, because waiting does not heal its failures; whose probe is due
failure_log      who fails, told without a flood
"""
