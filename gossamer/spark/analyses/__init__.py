"""What is computed of a recording: completeness, histories, traffic, splits, explanations."""
