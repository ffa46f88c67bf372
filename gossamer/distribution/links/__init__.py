"""Links to peers: handshake, channels, streams that retain and resend, and their events."""
