"""A node to be described: what it would serve, were it started."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI

from gossamer.api import Metric, make_app
from gossamer.config import Config
from gossamer.node import Node


@dataclass(frozen=True, slots=True)
class Described:
    """Its HTTP application, and its metrics."""

    app: FastAPI
    metrics: Sequence[Metric]


def a_node() -> Described:
    """With the configuration of nobody's saying anything."""
    return asyncio.run(_describe())


async def _describe() -> Described:
    node = Node(Config(), creation=1, cookie="of a node that never starts")
    return Described(make_app(node.view), tuple(node.view.metrics()))
