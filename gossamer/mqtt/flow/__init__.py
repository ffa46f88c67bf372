"""Flow control: back-pressure, deadlines, rates, work that is spread over turns."""
