"""One module a verb, named like it; each has a `command`."""
