"""The real command as a process, and what it needs of this machine."""
