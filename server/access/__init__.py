"""Who may see and do what: principals, and the one place that decides about them.

How a person or program proves who it is, is the door's business (`server.api`).
"""

from server.access.policy import Action, Seen, Whose
from server.access.principals import DEFAULT_GROUP, DIAGNOSIS, EVERY_GROUP, LOCAL, NOBODY, ROLES, Principal, Role

__all__ = [
    "DEFAULT_GROUP",
    "DIAGNOSIS",
    "EVERY_GROUP",
    "LOCAL",
    "NOBODY",
    "ROLES",
    "Action",
    "Principal",
    "Role",
    "Seen",
    "Whose",
]
