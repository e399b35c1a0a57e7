"""How far an adaptation came: one JSON file, a line of work for each step that is through."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rewriter.errors import RecipeError
from text.files import write_json

STEPS = ("index", "pairs", "train", "calibrate", "evaluate", "promote")
STATE = "state.json"


class AdaptationState:
    """The state of the adaptation in `folder`, made for `wanted`: what decides its result, as JSON values.

    Raises RecipeError where the folder holds one that was begun with something else.
    """

    def __init__(self, folder: Path, wanted: dict[str, Any]) -> None:
        self.folder = folder
        self.wanted = wanted
        self._path = folder / STATE
        folder.mkdir(parents=True, exist_ok=True)
        begun = self._read()
        if begun and begun.get("wanted") != wanted:
            changed = [key for key in wanted if begun.get("wanted", {}).get(key) != wanted[key]]
            raise RecipeError(
                f"The adaptation in {folder} was begun with other {' and '.join(changed) or 'options'}. "
                "Give this one another --name, or delete that folder."
            )
        self._state: dict[str, Any] = begun or {"wanted": wanted, "done": {}}

    def result(self, step: str) -> dict[str, Any] | None:
        """What a finished step came to, None where it is still to be done."""
        found = self._state["done"].get(step)
        return dict(found) if found is not None else None

    def finish(self, step: str, result: dict[str, Any]) -> dict[str, Any]:
        """Remember a step; those after it are to be done anew."""
        done = self._state["done"]
        for later in STEPS[STEPS.index(step) :]:
            done.pop(later, None)
        done[step] = result
        write_json(self._path, self._state)
        return result

    def _read(self) -> dict[str, Any]:
        try:
            state = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RecipeError(f"{self._path} cannot be read ({error}). Delete it to begin again.") from error
        return dict(state)
