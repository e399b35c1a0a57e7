"""Dialogs in which a question leaves the page that the conversation was about, for `papers.orconvqa retrieval`.

    python benchmarks/new_pages.py DATA OUT
    python -m papers.orconvqa retrieval --data OUT --sets "product-*" --systems auto:variants,auto:variants+rerank

`DATA` has `product_dialogs/` and `product_docs/`, and `OUT` gets the same shape. Each first and stand-alone question of
the dev dialogs that is answered is asked after one or two exchanges of another dialog about the same product and other
pages (kind `jump`). Where it names the product it is also asked with *it* instead (kind `it`), as people do who talk
about one product all the time. Nothing before it belongs to it.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import regex

NAMES = {
    "helm": "helm",
    "pi-hole": "(?:the |my )?pi-?hole",
    "uv": "uv",
    "mkdocs-material": "(?:mkdocs[ -])?material(?: for mkdocs)?",
    "fastapi": "fastapi",
    "meltano-handbook": "meltano",
}
NOUNS = (
    "repo|chart|plugin|install|upgrade|template|registry|list|package|docker|api|container|command|cli|binary|core|theme|v?\\d|"
    "pip|run|sync|lock|add|tool|python|build|init|update|uninstall|maintain|rollback|test|lint|dependency|history|status|"
    "get|pull|push|show|export|venv|cache|self|publish|instance|admin|regex|setup|project|setting|function|endpoint|"
    "config|docs|dev|web|sql|websockets|scripts|for mkdocs"
)
"""Words before which a product's name stands for no product."""


def with_pronoun(text: str, product: str) -> str | None:
    """Return the question with *it* for the name of its product; None where the name stands for nothing by itself.

    The rule is of these products alone, so that the questions stay the same; training has a rule for any
    (`rewriter.terms_training.with_pronoun`).
    """
    name = rf"(?<![-/\w`'\"$])(?<!\b(?:a|the|my|all|our) )(?<!tool\.|\[)(?:{NAMES[product]})(?![-/\w'’:]| (?:{NOUNS}))"
    changed = regex.sub(name, "it", text, count=1, flags=regex.IGNORECASE)
    return None if changed == text else changed


def pages(turns: list[dict[str, Any]]) -> set[str]:
    """Return the documents that the turns quote."""
    return {quote["document"] for turn in turns for quote in turn.get("evidence") or ()}


def main(data: Path, out: Path) -> None:
    chance = random.Random(7)
    by_product = defaultdict(list)
    for line in (data / "product_dialogs" / "dialogs.dev.jsonl").read_text("utf-8").splitlines():
        dialog = json.loads(line)
        by_product[dialog["product"]].append(dialog)
    made = []
    for product in sorted(by_product.keys() & NAMES.keys()):
        for dialog in by_product[product]:
            for place, turn in enumerate(dialog["turns"]):
                answered = turn.get("evidence") and turn.get("answerability") in ("answerable", "partial")
                if not answered or turn.get("kind") not in ("first", "standalone"):
                    continue
                others = [one["turns"] for one in by_product[product] if not pages([turn]) & pages(one["turns"])]
                said = chance.choice([turns for turns in others if len(turns) > 3])[: chance.choice([2, 4, 4])]
                if said[-1]["role"] != "assistant":
                    continue
                before = [{**one, "evidence": []} if one["role"] == "user" else one for one in said]
                for kind, text in (("jump", turn["text"]), ("it", with_pronoun(turn["text"], product))):
                    if text is not None:
                        asked = {**turn, "text": text, "kind": kind}
                        name = f"{kind}-{dialog['dialog_id']}-{place}"
                        made.append({"dialog_id": name, "product": product, "turns": [*before, asked]})
    (out / "product_dialogs").mkdir(parents=True, exist_ok=True)
    if not (out / "product_docs").exists():
        (out / "product_docs").symlink_to((data / "product_docs").absolute())
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in made)
    (out / "product_dialogs" / "dialogs.dev.jsonl").write_text(lines, "utf-8")
    print(f"{len(made)} dialogs in {out}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
