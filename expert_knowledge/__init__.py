"""Expert guidelines: one Markdown page a rule, and the Python that reads them."""
