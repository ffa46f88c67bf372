"""Reports from a drill's record: promises, timings, text and pages; pure."""
