"""The normative statements of MQTT 3.1.1 and 5.0, each kept by tests that cite it."""
