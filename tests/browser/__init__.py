"""The page in a real browser, which conftest starts once for all of these tests."""
