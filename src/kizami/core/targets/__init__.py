"""What is polled.

a [[targets]] table, read by core/config ─▶ settings ─▶ target (a Target and its checks)
    ─▶ core/requests (how it is asked), core/answers (what is believed of an answer)

hosts          how many requests a host may get in a period of time
bundles        which of them are asked by one message on AWS
references     where a secret is kept, in place of the secret
unknown_names  which known name was probably meant by one that is not known
description    a target in the words of its file, for whoever looks at it
"""
