# Copyright 2026 The robot_infer authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

"""Pages of keys and values: found again by what they depend on, never written while shared.

What lives here: the pool of blocks, their memory, the prefix index, sequences, and image
embeddings. What does not: attention (kernels/) and the keys of prefixes (prompt/layout.py).
"""

from robot_infer.cache.embeddings import EmbeddingCache
from robot_infer.cache.index import Match, PrefixIndex
from robot_infer.cache.paged import CacheStats, PagedCache
from robot_infer.cache.pool import BlockPool, PoolExhausted
from robot_infer.cache.sequence import Sequence, Snapshot
from robot_infer.cache.storage import BlockTable, KVStorage
from robot_infer.types import PageKey

__all__ = [
    'BlockPool', 'BlockTable', 'CacheStats', 'EmbeddingCache', 'KVStorage', 'Match', 'PageKey',
    'PagedCache', 'PoolExhausted', 'PrefixIndex', 'Sequence', 'Snapshot',
]
