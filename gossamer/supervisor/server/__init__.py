"""Behaviours: GenServer and StateMachine, and servers built on them."""
