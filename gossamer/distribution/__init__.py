"""Node-to-node links: authenticated, reliable, ordered streams of frames, and what travels on them."""
