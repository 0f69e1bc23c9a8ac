"""Offline tools: drives from files, replayed through the daemon, compared and drawn."""
