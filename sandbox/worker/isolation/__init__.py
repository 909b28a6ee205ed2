"""Runs untrusted code in a box: namespaces, a user id of its own, Landlock, seccomp, limits.

Standard library only. Importing it works everywhere; running a box needs Linux.
"""
