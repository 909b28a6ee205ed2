"""Benchmarks: `python -m benchmarks NAME`; results with date and versions go to `results/`."""
