"""Background jobs: drills and audits, each a run with a directory of its own, beside the node."""
