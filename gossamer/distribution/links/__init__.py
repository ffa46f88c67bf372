"""Links to peers: handshake, channels, streams that retain and resend, and who is told of both."""
