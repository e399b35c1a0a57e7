"""The server: settings, language models, the turn, the chat service, storage, and the HTTP API over them.

The names listed here are the public ones; they are imported on first use: `create_app(service, settings)` within `async
with open_service(settings) as service`.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
