"""The report of a run, with its charts and units."""
