"""What mypy has to accept, and what it has to refuse: the lines that end in ``# refused``. Never run."""

from dataclasses import replace
from functools import partial

from gossamer import ChildSpec, GenServer, Supervisor, spawn
from gossamer.supervisor import Backoff, DynamicSupervisor, Runtime, spawn_link


class Account(GenServer):
    async def init(self, opening: int, *, limit: int = 0) -> None:
        self.balance = opening


class Free(GenServer):
    pass


async def body(number: int, text: str = "") -> None:
    pass


async def start() -> None:
    await Account.start_link(10)
    await Account.start(10, limit=3)
    await Account.start_link(opening=10, name="account")
    await Account.start_link("ten")  # refused
    await Account.start_link(10, limt=3)  # refused
    await Account.start()  # refused
    await Account.named("account").start_link(10, limit=3)
    await Account.named("account").start_link("ten")  # refused
    await Account.named("account").start()  # refused
    await Free.start_link()
    await Free.start_link(1, two=2)


async def outside(runtime: Runtime) -> None:
    await runtime.start(Account, 10)
    await runtime.start(Account, 10, name="account")
    await runtime.start(Account, "ten")  # refused
    await runtime.run(body, 1, text="one")
    await runtime.run(body, "one")  # refused
    runtime.spawn(body, "one")  # refused


async def processes() -> None:
    spawn(body, 1)
    spawn(body, 1, "one", name="body")
    spawn_link(body, 1)
    spawn(body, "one")  # refused
    spawn_link(body)  # refused
    spawn(Account)  # refused


async def children() -> None:
    ChildSpec("account", partial(Account.named("account").start_link, 10))
    ChildSpec("account", partial(Account.named("account").start_link, "ten"))  # refused
    ChildSpec("account", Account.start_link)  # refused
    ChildSpec("account", Account)  # refused
    ChildSpec("free", Free.start_link)
    spec = ChildSpec.of("account", Account.start_link, 10, limit=3)
    ChildSpec.of("account", Account.named("account").start_link, 10)
    ChildSpec.of("account", Account.start_link, "ten")  # refused
    ChildSpec.of("account", Account.named("account").start_link, limt=3)  # refused
    await Supervisor.start_link([spec], strategy="one_for_one", backoff=Backoff(initial=1.0))
    await Supervisor.start_link([replace(spec, restart="transient")], name="sup")
    await Supervisor.start_link([spec], strategy="one_for_two")  # refused
    await DynamicSupervisor.start_link(max_children="many")  # refused
