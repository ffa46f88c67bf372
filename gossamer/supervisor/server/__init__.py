"""Behaviours: GenServer and StateMachine, and the servers that are made of them alone."""
