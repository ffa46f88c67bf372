"""Tables as their users see them: local, owned and shared ones, and queries on any."""
