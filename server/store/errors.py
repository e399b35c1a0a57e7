"""Errors of the store.

StoreError       the database cannot be opened, is of a newer version, or is damaged
└── StoreFull    a write failed because the disk is full or not writable; what was stored before stands
"""


class StoreError(Exception):
    """The database cannot be used; the message says what to do."""


class StoreFull(StoreError):
    """A write failed; nothing stored before is lost."""
