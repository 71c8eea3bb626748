"""What names a KV block: a salted hash chain over the tokens that it and its predecessors cover.

Equal keys mean equal tokens from the first prompt token on, under an equal salt (model, layout and
weight version), hence equal bytes. A key is 16 bytes of blake2b: collisions are out of question.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

KEY_BYTES = 16
_TOKEN_BYTES = 4


def chain_keys(token_ids: Sequence[int], block_size: int, salt: bytes) -> list[bytes]:
    """Keys of all blocks of `block_size` tokens that cover `token_ids`, the last, partial one too.

    The chain starts at the hash of `salt`; each key hashes its parent and the block's tokens (as
    little-endian int32), so a partial block and the full one it grows into have different keys.
    """
    data = np.asarray(token_ids, dtype="<i4").tobytes()
    stride = block_size * _TOKEN_BYTES
    parent = blake2b(salt, digest_size=KEY_BYTES).digest()
    keys = []
    for start in range(0, len(data), stride):
        parent = blake2b(parent + data[start : start + stride], digest_size=KEY_BYTES).digest()
        keys.append(parent)
    return keys
