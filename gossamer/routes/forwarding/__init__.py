"""Messages for other nodes: batches, acknowledgements, and who is up, away or gone."""
