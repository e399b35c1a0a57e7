"""Errors of the store.

StoreError       the database cannot be opened, is of a newer version, or is damaged
├── StoreFull    a write failed because the disk is full or not writable; what was stored before stands
├── HomeBusy     another process has the home to itself
└── BackupError  a backup cannot be made, or a file is none that can be restored
"""


class StoreError(Exception):
    """The database cannot be used; the message says what to do."""


class StoreFull(StoreError):
    """A write failed; nothing stored before is lost."""


class HomeBusy(StoreError):
    """Another process has the home to itself; the message names it."""


class BackupError(StoreError):
    """A backup cannot be made or restored; nothing was changed."""
