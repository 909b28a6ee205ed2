"""Runs references and candidates in processes of their own.

The parent half (this folder) imports no torch; the worker half (`worker/`) imports only the
standard library, torch and triton, so that it runs in the user's own environment.
"""
