"""Everything that is read off a drill's record: promises, timings, words and pages; pure."""
