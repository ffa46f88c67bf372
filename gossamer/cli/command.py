"""Building blocks of commands: shared options, and the path from a request to the output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from gossamer.cli import completion, values
from gossamer.cli.client import DEFAULT_API, TIMEOUT, ApiClient
from gossamer.cli.completion import Complete
from gossamer.cli.render.show import Rendered, show
from gossamer.cli.root import example


def argument(default: object, name: str, says: str, complete: Complete | None = None, **how: Any) -> Any:
    """Declare what stands behind the name of a command, ``name`` in its help; ``...`` if it must be there."""
    if default is ...:
        how.setdefault("callback", values.given)
    return typer.Argument(default, metavar=name, help=says, autocompletion=complete, **how)


def option(default: object, name: str, says: str, complete: Complete | None = None, **how: Any) -> Any:
    """Declare an option of a command, such as ``--limit``."""
    return typer.Option(default, name, help=says, autocompletion=complete, **how)


Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Api = Annotated[
    str,
    typer.Option(
        "--api",
        envvar="GOSSAMER_API",
        metavar="URL",
        show_default=False,
        help=f"API of a node (default: {DEFAULT_API})",
    ),
]
OnNode = Annotated[
    str | None,
    typer.Option(
        "--node",
        metavar="NAME",
        help="Ask this node, through the one at --api, rather than that one or all.",
        autocompletion=completion.nodes,
    ),
]
AllNodes = Annotated[bool, typer.Option("--all", help="Every node that is up.")]
NODE_NAME = argument(..., "NAME", "As `nodes` shows it.", completion.nodes)
CLIENT_ID = argument(..., "ID", "A client identifier, of any node.", completion.clients)
OF_TENANT = option(
    None,
    "--tenant",
    "Only those of this tenant; default: of no other one.",
    completion.tenants,
    callback=values.tenant,
)
THE_TENANT = option(
    None,
    "--tenant",
    "The tenant, unless it is the default one.",
    completion.tenants,
    callback=values.tenant,
)
FILTER = option(
    None, "--filter", "Only those of this filter.", completion.filters, callback=values.topic_filter
)
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Print so many at most.")]
Watch = Annotated[
    float | None,
    typer.Option(
        "--watch",
        "-w",
        min=0.1,
        metavar="[SECONDS]",
        help="Again every so many seconds, 2 unless told, until Ctrl-C; what changed is marked.",
        show_default=False,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-c", "--config", metavar="FILE", dir_okay=False, help="YAML file; without it all defaults."
    ),
]
F = TypeVar("F", bound=Callable[..., object])
Parameters = Mapping[str, tuple[object, object]]
"""Annotation and default by name."""


def asks(
    *examples: str, node: bool = False, watch: bool = False, timeout: float = TIMEOUT
) -> Callable[[Callable[..., Rendered]], Callable[..., None]]:
    """Make a command of a function that asks a node and returns what is to be shown.

    The function gets the client, and its own options by name; ``limit`` is the rows that are shown at most,
    and ``json`` whether scripts read it, for who prints before the end.
    ``--api`` and ``--json`` are added, with ``node`` and ``watch`` also ``--node`` and ``--watch``.
    """

    def make(run: Callable[..., Rendered]) -> Callable[..., None]:
        own = dict(list(inspect.signature(run, eval_str=True).parameters.items())[1:])
        limited = "limit" in own

        def command(**given: Any) -> None:
            api, json = given.pop("api"), given["json"]
            if "json" not in own:
                del given["json"]
            at = given.pop("node") if node else None
            seconds = given.pop("watch", None)
            limit = given.pop("limit", None)
            with ApiClient(api, node=at, timeout=timeout) as client:

                def ask(most: int | None) -> Rendered:
                    return run(client, **given, **({"limit": most} if limited else {}))

                show(ask, json=json, watch=seconds, limit=limit)

        parameters = {name: (one.annotation, one.default) for name, one in own.items()}
        added: Parameters = {
            "api": (Api, DEFAULT_API),
            **({"node": (OnNode, None)} if node else {}),
            "json": (Json, False),
            **({"watch": (Watch, None)} if watch else {}),
        }
        command.__name__, command.__doc__ = run.__name__, run.__doc__
        return example(*examples)(with_parameters(command, {**parameters, **added}))

    return make


def with_parameters(function: F, parameters: Parameters) -> F:
    """``function`` as one that Typer gives ``parameters`` by name; it reads the signature, not the code."""
    vars(function)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in parameters.items()
        ]
    )
    function.__annotations__ = {}
    return function
