"""Flow control: back-pressure, deadlines, commits, rates, and fan-out spread over turns of the loop."""
