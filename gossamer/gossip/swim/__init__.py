"""SWIM protocol as a pure state machine: probes, suspicion, verdicts, dissemination, push-pull."""
