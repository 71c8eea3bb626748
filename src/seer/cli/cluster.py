"""`seer cluster`: a trial cluster on this machine, and what a cluster has room for."""

import asyncio
import os
from typing import Annotated

import typer

from seer.cluster import trial
from seer.cluster.ray_cluster import require_ray

AUTH_VARIABLE = "RAY_AUTH_MODE"

app = typer.Typer(
    help="A Ray (and, if asked, a Mooncake store) on this machine, for trials.",
    no_args_is_help=True,
)


@app.command("up")
def start(
    cpus: Annotated[
        int | None, typer.Option(help="processors that Ray counts on (default: all)", min=1)
    ] = None,
    mooncake_bytes: Annotated[
        int, typer.Option(help="memory of a Mooncake store for KV; 0 is no store", min=0)
    ] = 0,
) -> None:
    """Start a trial cluster that stays until `seer cluster down`."""
    running = trial.up(cpus=cpus, mooncake_bytes=mooncake_bytes)
    typer.echo(f"Ray:      {running.ray_address}")
    pool = ""
    if running.pool_url is not None:
        typer.echo(f"Mooncake: {running.pool_url}")
        pool = f" --pool {running.pool_url}"
    typer.echo(
        f"try next: {AUTH_VARIABLE}=token seer rollout --cluster ray "
        f"--ray-address {running.ray_address}{pool} --prompts reasoning-gym:chain_sum"
    )


@app.command("down")
def stop() -> None:
    """End the trial cluster."""
    typer.echo("ended" if trial.down() else "no trial cluster runs")


@app.command("status")
def show(
    ray_address: Annotated[
        str | None, typer.Option(help="host:port of a cluster (default: RAY_ADDRESS, the trial's)")
    ] = None,
) -> None:
    """Show what is free on each node of a cluster."""
    require_ray()
    running = trial.status()
    if running is not None and ray_address in {None, running.ray_address}:
        # A Ray that `ray.init` has started wants the token of ~/.ray; Ray reads this when imported.
        os.environ.setdefault(AUTH_VARIABLE, "token")
    from seer.cluster.actors.connection import (  # noqa: PLC0415 - imports Ray, an extra
        ADDRESS_VARIABLE,
        connected,
        free_resources,
    )

    address = ray_address or os.environ.get(ADDRESS_VARIABLE)
    if address is None and running is None:
        typer.echo("no trial cluster runs; `seer cluster up` starts one")
        return
    if address is None and running is not None:
        address = running.ray_address

    async def look() -> None:
        async with connected(address):
            nodes = free_resources()
        typer.echo(f"Ray at {address}: {len(nodes)} nodes; free on each:")
        for node in nodes:
            typer.echo(f"  {node}")

    asyncio.run(look())
    if running is not None and running.pool_url is not None:
        typer.echo(f"Mooncake: {running.pool_url}")
