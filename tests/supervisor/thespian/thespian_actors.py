"""Thespian actors for the tests, written as Thespian's users write them."""

from __future__ import annotations

import os
import signal
import time

from thespian.actors import Actor, ActorExitRequest, ChildActorExited

from gossamer.supervisor.thespian import BRIDGE, BRIDGE_NAME, Delivered, Publish, Subscribe


class Adder(Actor):
    def receiveMessage(self, message, sender):
        match message:
            case int():
                self.send(sender, message + 1)
            case "pid":
                self.send(sender, [os.getpid(), os.getppid(), os.getpgid(0)])
            case "exit":
                self.send(self.myAddress, ActorExitRequest())
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case ["slow", seconds, answer]:
                time.sleep(seconds)
                self.send(sender, answer)


class Fragile(Actor):
    """Writes how often its handler ran, then raises."""

    def receiveMessage(self, message, sender):
        if isinstance(message, str):
            with open(message, "a") as file:  # noqa: PTH123
                file.write("ran\n")
            raise ValueError("as asked")
        if isinstance(message, int):
            self.send(sender, message)


class Stillborn(Actor):
    def __init__(self):
        super().__init__()
        raise RuntimeError("no luck")


class Parent(Actor):
    child = None

    def receiveMessage(self, message, sender):
        if message == "child":
            self.child = self.createActor(Adder)
            self.asker = sender
            self.send(self.child, "pid")
        elif isinstance(message, list):
            self.send(self.asker, message)
        elif isinstance(message, ChildActorExited):
            self.child = None


class Relay(Actor):
    """Publishes upper case of what comes to ``in/#`` under ``out``."""

    def receiveMessage(self, message, sender):
        bridge = self.createActor(BRIDGE, globalName=BRIDGE_NAME)
        if message == "subscribe":
            self.send(bridge, Subscribe("in/#", 1))
        elif isinstance(message, Delivered):
            self.send(bridge, Publish(f"out/{message.topic}", message.payload.upper(), message.qos))
