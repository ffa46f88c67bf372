"""Write-ahead log of a node: one for all of its groups, in segments, and the disc that it is given."""
