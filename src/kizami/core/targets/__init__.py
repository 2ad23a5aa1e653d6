"""What is polled: a Target with its checks, and what a URL may be.

Request templates and value expressions come here.
"""
