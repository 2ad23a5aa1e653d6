"""Calls out of a function, by the standard library alone.

store/, secrets ─▶ json_client (AWS's JSON protocol: sign, post, try again, name the error)
    ─▶ account (credentials, region, endpoint), signature (Version 4) ─▶ http_client ─▶ AWS
collector ─▶ polled_api (one GET, its secrets looked up) ─▶ http_client ─▶ the polled API
stack_outputs: where a deployed stack has its table and queues, for the command line alone
"""
