"""How a target is reached and told who asks.

    auth, tls, proxy of a [[targets]] table, read by core/targets/settings
        ─▶ auth           a bearer token, a user and password, an OAuth2 client
           tokens         what an OAuth2 client asks its token endpoint, and when it asks again
           tls            whose certificates are believed, and which one is shown
           references     every secret that a target refers to for it
           proxy          who passes a request on
           certificates   what a certificate that is refused needs, and until when one is valid
           failures       why no answer came, in the same words for every client

All of it is pure: local/http and aws/client read the secrets and files, and ask.
"""
