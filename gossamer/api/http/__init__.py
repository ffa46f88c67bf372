"""HTTP below the routes: connections, middleware (guard, access, limits), tokens, problems, long answers."""
