"""Calls out of a function, by the standard library alone.

store/, secrets ─▶ json_client (AWS's JSON protocol: sign, post, try again, name the error)
    ─▶ account (credentials, region, proxy), endpoints (where), signature (Version 4) ─▶ http_client ─▶ AWS
collector ─▶ polled_api (one GET, its secrets looked up) ─▶ http_client ─▶ the polled API
bundles/ ─▶ side_by_side (many of them on one event loop) ─▶ loop_client ─▶ the polled APIs
polled_api, side_by_side
                 └─▶ target_access (tokens, certificates, a proxy; once more at 401) ─▶ polled_api
machine: clocks, chance, threads, for whoever needs them in a function
stack_outputs: where a deployed stack has its table and queues, for the command line alone
"""
