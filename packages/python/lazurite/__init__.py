"""Starts and stops Lazurite: Azure-compatible Blob, Queue and Table storage on this machine.

    from lazurite import Lazurite

    with Lazurite() as store:
        client = BlobServiceClient.from_connection_string(store.connection_string)
"""

from ._program import find_program
from ._server import Fork, Lazurite, LazuriteError, Store

__all__ = ["Fork", "Lazurite", "LazuriteError", "Store", "find_program"]
__version__ = "0.1.0"
