"""Three faked nodes that ask each other as real ones do."""

from dataclasses import dataclass

import httpx

from api.fakes import FakeView, member
from gossamer.api import PeerRequests, make_app
from gossamer.api.model.node import ClientInfo
from gossamer.supervisor import Runtime

NAMES = [f"node{number}@127.0.0.1" for number in (1, 2, 3)]


@dataclass
class Linked:
    """Makes clusters; ``runtime`` runs what the nodes ask each other."""

    runtime: Runtime

    def cluster(self, clients, *, silent=()):
        """Three nodes that hold ``clients``, as pairs of a client and the number of its node."""
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
                peer.name: PeerRequests(lambda peer=peer: make_app(peer), self.runtime)
                for peer in views
                if peer.name not in silent
            }
        return views


def client_of(view, host="127.0.0.1"):
    """A caller at ``host``."""
    transport = httpx.ASGITransport(make_app(view), client=(host, 4))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8091")


async def pages(http, path, **params):
    rows, after, number = [], None, 0
    while True:
        page = (await http.get(path, params={**params, **({"after": after} if after else {})})).json()
        rows += page["items"]
        after, number = page["next"], number + 1
        if after is None:
            return rows, page["missing"], number
