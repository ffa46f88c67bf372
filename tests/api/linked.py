"""Three faked nodes that ask each other as real ones do."""

from dataclasses import dataclass

import httpx

from api.fakes import FakeView, member
from gossamer.api import PeerRequests, make_app
from gossamer.api.model.node import ClientInfo
from gossamer.config import ApiConfig
from gossamer.supervisor import Runtime

NAMES = [f"node{number}@127.0.0.1" for number in (1, 2, 3)]


@dataclass
class Linked:
    """Makes clusters; ``runtime`` runs what the nodes ask each other."""

    runtime: Runtime

    def cluster(self, clients, *, silent=(), tokens=None):
        """Three nodes that hold ``clients``, as pairs of a client and the number of its node; all have
        the same ``tokens``."""
        views = [FakeView(name=name) for name in NAMES]
        for number, view in enumerate(views):
            view.known = [
                member(at + 1).model_copy(update={"local": at == number, "name": NAMES[at]})
                for at in range(3)
            ]
            view.sessions = [
                ClientInfo(client=client, connected=True, node=view.name)
                for client, at in clients
                if at == number
            ]
        for view in views:
            view.peers = {
                peer.name: PeerRequests(lambda peer=peer: make_app(peer, tokens=tokens), self.runtime)
                for peer in views
                if peer.name not in silent
            }
        return views


def client_of(view, host="127.0.0.1", *, app=None, name="127.0.0.1", **config):
    """A caller at ``host`` of ``app``, or else of one with ``config``, who knows the node by ``name``."""
    app = app or make_app(view, config=ApiConfig(**config))
    transport = httpx.ASGITransport(app, client=(host, 4))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{name}:8091")


async def pages(http, path, **params):
    rows, number = [], 0
    while True:
        page = (await http.get(path, params=params)).json()
        rows += page["items"]
        params["after"], number = page["next"], number + 1
        if page["next"] is None:
            return rows, page["missing"], number


def meters(cluster):
    """Three nodes, each with four clients that differ in all that clients are searched and sorted by."""
    views = cluster([])
    for number, view in enumerate(views):
        view.sessions = [
            ClientInfo(
                client=f"Meter-{number}{at}",
                connected=at != 3,
                node=view.name,
                username="Anna" if at == 1 else "",
                address=f"10.0.{number}.{at}:500",
                queued=at * 3 + number,
            )
            for at in range(4)
        ]
    return views
