"""A whole run: data, vocabulary, stages, export, gate, scores, card. Every step leaves a file, so a run that was
killed goes on where it was.

    recipe.json, data.json     what was asked for; a run goes on only with the same
    tokenizer.json             made first
    stages/<name>/             checkpoints while it runs; final.pt and log.json when it is through
    logs/                      TensorBoard
    weights/, export/          written at the end, then curves.png, README.md and, last of all, rewriter.json
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rewriter.conditional import folder as run_folder
from rewriter.conditional.folder import EXPORT, TOKENIZER, WEIGHTS
from rewriter.conditional.form import Form
from rewriter.conditional.gate import RewriteGate
from rewriter.conditional.serving import ConditionalRewriter, open_engine
from rewriter.errors import RecipeError, TrainingError
from rewriter.load import DESCRIPTION, FORMAT, Serving
from rewriter.tokenizer_file import read_tokenizer
from rewriter.training.assess import assess, fit_gate
from rewriter.training.bases import Base, open_base, open_tokenizer
from rewriter.training.card import Made, hardware, write_card
from rewriter.training.curves import draw
from rewriter.training.export import export, save_weights
from rewriter.training.features import Features
from rewriter.training.mixture import Mixture
from rewriter.training.recipe import Recipe
from rewriter.training.stages import Machine, run_stage
from text.extras import need_extra
from text.files import replacing, write_json

LIBRARIES = ("torch", "transformers", "accelerate", "matplotlib", "peft", "sentencepiece", "tensorboard")
"""Asked for before anything is done, so that no run ends for want of one."""

ASSESSED = 400
"""At most so many held-out examples are rewritten one by one at the end."""


def train(
    recipe: Recipe,
    root: Path,
    folder: Path,
    *,
    machine: Machine = Machine(),  # noqa: B008  (frozen)
    callback: Callable[[str], None] = print,
) -> Path:
    """Run `recipe` on the data below `root` in `folder`, or go on with the run that lies there; the folder.

    A finished run is left as it is. Under torchrun or `accelerate launch` every process calls this and the first
    one writes. Raises MissingExtra, RecipeError, ExampleError, TrainingError.
    """
    need_extra("train", "Training", *LIBRARIES)
    if (folder / DESCRIPTION).is_file():
        callback(f"{folder.name} is finished.")
        return folder
    import torch
    from transformers.utils import logging as hf_logging

    if machine.threads:
        torch.set_num_threads(machine.threads)
    # The bars of saving and loading a model say nothing at these sizes.
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    first = os.environ.get("RANK", "0") == "0"
    if not first:
        callback = _silent
        _awaited(folder / TOKENIZER)
    clock = _Clock(folder)
    mixture = Mixture(recipe, root)
    base = _begun(recipe, mixture, folder, clock.telling(callback))
    dev = Features(mixture.held_out("dev"), base.form)
    steps = dict[str, int]()
    for n, stage in enumerate(recipe.stage):
        place = folder / "stages" / stage.name
        if not (place / "final.pt").is_file():
            if n:
                before = folder / "stages" / recipe.stage[n - 1].name / "final.pt"
                _awaited(before)
                _restore(base.model, before)
            examples = mixture.train(n)
            callback(f"{stage.name}: {len(examples):,} examples")
            log = run_stage(
                base.model,
                stage,
                Features(examples, base.form),
                dev,
                pad=_pad(base),
                folder=place,
                logs=folder / "logs" / stage.name,
                seed=recipe.seed + n,
                machine=machine,
                callback=clock.telling(callback),
            )
            if first:
                _finished_stage(place, base.model, log)
        steps[stage.name] = int(max((entry["step"] for entry in _log(place)), default=0))
    if first:
        _restore(base.model, folder / "stages" / recipe.stage[-1].name / "final.pt")
        _finish(recipe, mixture, base, folder, steps, clock, callback)
    return folder


def refinish(folder: Path, callback: Callable[[str], None] = print) -> None:
    """Make the export of a run again from its weights, with the gate it has. Raises TrainingError without weights."""
    path = folder / DESCRIPTION
    if not (folder / WEIGHTS).is_dir() or not path.is_file():
        raise TrainingError(f"{folder} has no weights to export; only a finished run that kept them has.")
    description = json.loads(path.read_text("utf-8"))
    exports = export(folder, tuple(description["exports"]) or ("int8",))
    _describe(folder, description | {"exports": list(exports)})
    callback(f"{folder.name}: exported {', '.join(exports) or 'nothing; torch serves it'}.")


def _begun(recipe: Recipe, mixture: Mixture, folder: Path, callback: Callable[[str], None]) -> Base:
    """The base model of a new run, or of the one that lies in `folder`; raises RecipeError where that is another."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted, path = recipe.model_dump_json(indent=2), folder / "recipe.json"
    if path.is_file() and path.read_text("utf-8") != wanted:
        raise RecipeError(
            f"{folder.name} was begun with another recipe. Name this run otherwise, or delete the folder to start over."
        )
    for n in range(len(recipe.stage)):
        mixture.train(n)
    mixture.held_out("dev")
    data = json.dumps([asdict(source) for source in mixture.sources()], indent=2)
    hashes = folder / "data.json"
    if hashes.is_file() and hashes.read_text("utf-8") != data:
        raise RecipeError(f"The data of {folder.name} changed since the run began. Give this run another name.")
    path.write_text(wanted, "utf-8")
    hashes.write_text(data, "utf-8")
    saved = folder / TOKENIZER
    if saved.is_file():
        tokenizer = read_tokenizer(saved)
        end = str(json.loads((folder / "end.json").read_text("utf-8")))
    else:
        callback("making the vocabulary" if recipe.model.base.startswith("config:") else f"opening {recipe.model.base}")
        tokenizer, end = open_tokenizer(recipe.model, mixture.texts, recipe.seed)
        (folder / "end.json").write_text(json.dumps(end), "utf-8")
        with replacing(saved) as draft:
            tokenizer.save(str(draft))
    return open_base(recipe.model, tokenizer, end, recipe.lora, recipe.seed)


def _finish(
    recipe: Recipe,
    mixture: Mixture,
    base: Base,
    folder: Path,
    steps: dict[str, int],
    clock: _Clock,
    callback: Callable[[str], None],
) -> None:
    import torch

    trainable = sum(p.numel() for p in base.model.parameters() if p.requires_grad)
    model = base.model.merge_and_unload() if recipe.lora else base.model
    callback("exporting")
    save_weights(folder, model.cpu(), base.form)
    exports = export(folder, ("int8", "float16") if torch.cuda.is_available() else ("int8",))
    run = run_folder.RunFolder(
        recipe.model.family, base.architecture, recipe.model.bounds, base.end, RewriteGate(), exports
    )
    form: Form = run.form(folder)
    engine = open_engine(folder, run, form, Serving(device="cpu"))
    callback("calibrating the gate")
    gate = fit_gate(engine, form, mixture.held_out("dev"))
    run = replace(run, gate=gate)
    callback("rewriting what was held out")
    served = ConditionalRewriter(engine, form, gate, name=run.family, timeout_seconds=60.0)
    scores = assess(served, mixture.held_out("test")[:ASSESSED])
    served.close()
    metrics = scores.as_dict() if scores else {}
    made = Made(sum(p.numel() for p in model.parameters()), trainable, steps, clock.seconds(), hardware())
    draw(
        folder / "curves.png",
        folder.name,
        [(stage.name, _log(folder / "stages" / stage.name)) for stage in recipe.stage],
    )
    description = run.as_dict() | {
        "format": FORMAT,
        "recipe": recipe.name,
        "base": Path(recipe.model.base).name,
        "parameters": made.parameters,
        "seconds": round(made.seconds, 1),
        "hardware": made.hardware,
        "metrics": metrics,
        "created": time.time(),
    }
    write_card(folder, recipe, mixture.sources(), made, description)
    for stage in recipe.stage:
        for checkpoint in (folder / "stages" / stage.name).glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
    _describe(folder, description)


def _describe(folder: Path, description: dict[str, Any]) -> None:
    """Write `rewriter.json` with the hashes of what serving needs, in one step."""
    files = [folder / TOKENIZER, *(path for path in (folder / EXPORT).rglob("*") if path.is_file())]
    if not description["exports"]:
        files += [path for path in (folder / WEIGHTS).iterdir() if path.suffix in (".json", ".safetensors")]
    whole = description | {"files": run_folder.fingerprint(folder, files)}
    write_json(folder / DESCRIPTION, whole)


def _awaited(path: Path, seconds: float = 1800.0) -> None:
    """Wait for a file that the first process writes; at once where it is there."""
    until = time.monotonic() + seconds
    while not path.is_file():
        if time.monotonic() > until:
            raise TrainingError(f"The first process did not write {path} in {seconds / 60:.0f} minutes.")
        time.sleep(0.5)


def _silent(_: str) -> None:
    """Says nothing: the first process tells for all."""


def _finished_stage(place: Path, model: Any, log: list[dict[str, float]]) -> None:
    import torch

    (place / "log.json").write_text(json.dumps(log), "utf-8")
    trained = {name: p.detach().cpu() for name, p in model.named_parameters() if p.requires_grad}
    with replacing(place / "final.pt") as draft:
        torch.save(trained, draft)


def _restore(model: Any, path: Path) -> None:
    import torch

    try:
        trained = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError) as error:
        raise TrainingError(f"{path} cannot be read ({error}). Delete it to train its stage again.") from error
    unknown = model.load_state_dict(trained, strict=False).unexpected_keys
    if unknown:
        raise TrainingError(f"{path} belongs to another model ({unknown[0]}). Delete the folder to start over.")


def _log(place: Path) -> list[dict[str, float]]:
    path = place / "log.json"
    return list(json.loads(path.read_text("utf-8"))) if path.is_file() else []


def _pad(base: Base) -> int:
    pad = base.model.config.pad_token_id
    return int(pad) if pad is not None else base.form.end


class _Clock:
    """Seconds a run took, over all its starts; kept in `seconds.json` as it talks."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "seconds.json"
        self._started = time.monotonic()
        self._before = float(json.loads(self._path.read_text("utf-8"))) if self._path.is_file() else 0.0

    def seconds(self) -> float:
        """Until now."""
        return self._before + time.monotonic() - self._started

    def telling(self, callback: Callable[[str], None]) -> Callable[[str], None]:
        """`callback`, with the clock written down each time."""

        def tell(text: str) -> None:
            self._path.write_text(json.dumps(round(self.seconds(), 1)), "utf-8")
            callback(text)

        return tell
