"""Vector stores: where the vectors of a collection's versions lie, and how the nearest are found.

`protocol` says what a store is and which one a collection uses; `exact`, `quantised`, `chroma` and `milvus` come with
Anaphora, and others may be declared as entry points of `anaphora.vector_stores`. Which version serves, BM25,
filters and texts are the collection's.
"""

from index.stores.protocol import EXACT as EXACT
from index.stores.protocol import GROUP as GROUP
from index.stores.protocol import Mask as Mask
from index.stores.protocol import Neighbours as Neighbours
from index.stores.protocol import OpenTerms as OpenTerms
from index.stores.protocol import OpenVectors as OpenVectors
from index.stores.protocol import StoreSpec as StoreSpec
from index.stores.protocol import Take as Take
from index.stores.protocol import TermStore as TermStore
from index.stores.protocol import VectorStore as VectorStore
from index.stores.protocol import Weigh as Weigh
from index.stores.protocol import delete_vectors as delete_vectors
from index.stores.protocol import load_store as load_store
