"""A process that lends memory to a Mooncake store, so that KV outlives the instances.

`python -m seer.kvpool.mooncake.storage_node HOST:PORT BYTES` runs until it is ended;
with `--with-owner` it ends with its standard input, too.
"""

import signal
import sys

from seer.errors import InvalidInput
from seer.kvpool.mooncake.library import check_library, check_master, connect
from seer.subprocesses import end_with_owner

READY = "ready"
WITH_OWNER = "--with-owner"


def main() -> None:
    """Lend memory until told to end."""
    arguments = [argument for argument in sys.argv[1:] if argument != WITH_OWNER]
    if WITH_OWNER in sys.argv:
        end_with_owner()
    try:
        master, num_bytes = arguments
        check_library()
        check_master(master)
        store = connect(master, int(num_bytes))
    except (ValueError, InvalidInput) as error:
        sys.exit(f"usage: storage_node HOST:PORT BYTES [{WITH_OWNER}]; {error}")
    print(READY, flush=True)  # noqa: T201 - whoever started it waits for this line
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    store.close()


if __name__ == "__main__":
    main()
