"""Faults to inject, each with the class it must be given."""
