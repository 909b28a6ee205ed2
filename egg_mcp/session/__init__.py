"""The stage machine as pure functions over records: no I/O, no clock."""
