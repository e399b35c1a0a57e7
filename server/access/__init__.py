"""Access control: principals, and the one place that decides about them.

How a person or program proves who it is, is the door's business (`server.api`).
"""

from server.access.policy import Action as Action
from server.access.policy import Ownership as Ownership
from server.access.principals import DEFAULT_GROUP as DEFAULT_GROUP
from server.access.principals import DIAGNOSIS as DIAGNOSIS
from server.access.principals import EVERY_GROUP as EVERY_GROUP
from server.access.principals import LOCAL as LOCAL
from server.access.principals import NOBODY as NOBODY
from server.access.principals import ROLES as ROLES
from server.access.principals import Principal as Principal
from server.access.principals import Role as Role
