"""Attacks: candidates that try to get out of the sandbox, and how one sees that they did."""
