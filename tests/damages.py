"""What a disk does to a file: cut it short, flip a bit, lose it, empty it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from index.version import CollectionFolder


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 0x40
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


Damage = Callable[[Path], None]
DAMAGES = (truncate, flip, remove, empty)


def damage_file(folder: CollectionFolder, file: str, damage: Damage) -> None:
    """Damage a file of the version that serves, or of the collection; `file` may have wildcards."""
    place = folder.path if file == "current" else folder.versions / folder.named()
    (path,) = place.glob(file)
    damage(path)
