from server.api.app import create_app as create_app
from server.chat import ChatError as ChatError
from server.chat import ChatService as ChatService
from server.chat import open_service as open_service
from server.settings import Settings as Settings
