"""An application as a user writes one, for a node to load by name."""

from functools import partial

from gossamer import ChildSpec, GenServer
from gossamer.supervisor import Reply


class Echo(GenServer):
    async def handle_call(self, request, caller):
        return Reply(request)


def application(node):
    node.functions["shout"] = str.upper
    return [ChildSpec("echo", partial(Echo.start_link, name="echo"))]


def strange(node):
    return ["not a spec"]
