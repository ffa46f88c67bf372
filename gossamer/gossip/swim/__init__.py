"""The SWIM protocol as a pure machine: probes, suspicion, verdicts, dissemination, synchronisation."""
