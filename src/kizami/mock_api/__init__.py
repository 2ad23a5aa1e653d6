"""The mock "AI employee" API, which is polled where there is no other.

a socket ─▶ server ─▶ application (ASGI) ─▶ responder (a request becomes a response; pure)
API Gateway ─▶ kizami/aws/mock_api.py ─▶ responder ─▶ users (who a company has), openapi (its description)
requests_log: a line for each request, on both ways
service: whether targets expect it here, and serving it for `kizami up`, `doctor` and `backfill`
"""
