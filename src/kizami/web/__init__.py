"""The page, its JSON API and its actions, over the port in backend/.

    a request ─▶ server (a thread of its own) ─▶ application (routes) ─▶ security (Host, token, origin) ─▶ guesses
        GET  /, /targets/…, /calendar ─▶ pages ─▶ view/ (address, screen, render)
        GET  /api/v1/live            ─▶ event_stream ◀─ live (one look for all open pages) ─▶ view/
        GET  /api/v1/…               ─▶ api, api_lists, in pages by paging ─▶ backend/wire
        POST /api/v1/…               ─▶ actions ─▶ backend/repair
        GET  /api/v1/figures         ─▶ figures/ ─▶ backend/figures
        GET  /prometheus/…           ─▶ prometheus/
        GET  /metrics, /healthz, /readyz ─▶ monitoring
    pages, live and actions share wall/: what was seen of thousands of targets is kept
    each of them ─▶ backend_threads (threads, each with a Backend of its own) ─▶ backend/port ─▶ local/ or aws/
    problems: how all of them say no

static/ and view/templates/ are the browser's side, openapi.json describes the API.
"""

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080
