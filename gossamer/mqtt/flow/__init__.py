"""Who waits, for whom and how long: back-pressure, deadlines, rates, work that is spread over turns."""
