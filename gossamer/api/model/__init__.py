"""The values that the API takes and answers with."""
