"""Serving a trained run: the same answers as torch, many turns at once, in time, and never an error into a turn."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rewriter.conditional import form as run_folder
from rewriter.conditional.engine import Ct2Engine, Decided, Stop, TorchEngine
from rewriter.conditional.export import export
from rewriter.conditional.form import KEEP, REWRITE, Form
from rewriter.conditional.serving import ConditionalRewriter, load
from rewriter.examples import RewriteExample, read_examples
from rewriter.gate import RewriteGate
from rewriter.load import Serving, describe, load_rewriter
from rewriter.protocol import Conversation, Message, Rewriter, RunError
from rewriter.training.recipe import Recipe

TALK = Conversation(
    (Message("user", "How do I renew a bus pass?"), Message("assistant", "Ask the office about a bus pass."))
)


def form_of(folder: Path) -> Form:
    return run_folder.read(folder, describe(folder)).form(folder)


def both(folder: Path) -> tuple[Form, TorchEngine, Ct2Engine]:
    form = form_of(folder)
    return form, TorchEngine.open(folder / "weights", form), Ct2Engine(folder / "export" / "int8", form)


@pytest.fixture(scope="module")
def asked(papers: Path) -> list[RewriteExample]:
    return list(read_examples(papers / "papers.jsonl"))[:60]


def test_ctranslate2_decides_and_writes_as_torch_does(copied: Path, asked: list[RewriteExample]) -> None:
    form, torch, int8 = both(copied)
    export(copied, ("float32",))
    float32 = Ct2Engine(copied / "export" / "float32", form, compute="float32")
    sources = [form.source(example.conversation, example.question) for example in asked]
    wanted, same, near = (engine.decide(sources, 24, lambda: False) for engine in (torch, float32, int8))
    assert [one.phrased for one in same] == [one.phrased for one in wanted]
    assert [one.difference for one in same] == pytest.approx([one.difference for one in wanted], abs=1e-3)
    assert sum(one.phrased is not None for one in wanted) >= 10
    # Eight bits move the logits of a model as narrow as this one, but not what it decides where it is sure.
    assert max(abs(a.difference - b.difference) for a, b in zip(wanted, near, strict=True)) < 1.5
    sure = [(a, b) for a, b in zip(wanted, near, strict=True) if abs(a.difference) > 1.5]
    assert all((a.phrased is None) == (b.phrased is None) for a, b in sure)
    assert [one[:1] for one in torch.phrase(sources[:4], 24, 1, lambda: False)] == [
        one[:1] for one in float32.phrase(sources[:4], 24, 1, lambda: False)
    ]


def test_a_batch_gives_what_one_by_one_gives(trained: Path, asked: list[RewriteExample]) -> None:
    form, torch, _ = both(trained)
    sources = [form.source(example.conversation, example.question) for example in asked[:8]]
    together = torch.decide(sources, 24, lambda: False)
    alone = [torch.decide([source], 24, lambda: False)[0] for source in sources]
    assert [one.phrased for one in together] == [one.phrased for one in alone]
    assert [one.difference for one in together] == pytest.approx([one.difference for one in alone], abs=1e-3)


@pytest.mark.parametrize("base", ["config:gpt2-tiny", "config:mamba-tiny"])
def test_causal_engines_agree_too(
    base: str, papers: Path, tmp_path: Path, recipe_of: Callable[..., Recipe], run: Callable[..., Path]
) -> None:
    recipe = recipe_of(model={"family": "causal", "base": base}, stage={"steps": 2}, dev_examples=6)
    folder = run(recipe, papers, tmp_path / "run")
    form = form_of(folder)
    torch = TorchEngine.open(folder / "weights", form)
    examples = list(read_examples(papers / "papers.jsonl"))[:4]
    sources = [form.source(example.conversation, example.question) for example in examples]
    slow = torch.decide(sources, 8, lambda: False)
    assert [one.difference for one in slow] == pytest.approx(
        [torch.decide([source], 8, lambda: False)[0].difference for source in sources], abs=1e-3
    )
    if (folder / "export").is_dir():
        fast = Ct2Engine(folder / "export" / "int8", form).decide(sources, 8, lambda: False)
        assert [one.difference for one in fast] == pytest.approx([one.difference for one in slow], abs=0.2)
    assert all(len(three) == 3 for three in torch.phrase(sources, 8, 3, lambda: False))


@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`")
def test_low_rank_weights_of_a_llama_are_merged_for_ctranslate2(
    instruct: Path, papers: Path, tmp_path: Path, recipe_of: Callable[..., Recipe], run: Callable[..., Path]
) -> None:
    made = recipe_of(model={"family": "causal", "base": str(instruct)}, stage={"steps": 4}, dev_examples=6)
    folder = run(Recipe.model_validate(made.model_dump() | {"lora": {"rank": 4}}), papers, tmp_path / "run")
    form, torch, int8 = both(folder)
    sources = [form.source(one.conversation, one.question) for one in list(read_examples(papers / "papers.jsonl"))[:4]]
    slow, fast = (engine.decide(sources, 8, lambda: False) for engine in (torch, int8))
    assert [one.difference for one in fast] == pytest.approx([one.difference for one in slow], abs=0.2)


def test_the_gate_ends_generation_and_its_threshold_decides(trained: Path) -> None:
    form = form_of(trained)
    engine = Ct2Engine(trained / "export" / "int8", form)
    never = ConditionalRewriter(engine, form, RewriteGate(threshold=1.1), timeout_seconds=30)
    always = ConditionalRewriter(engine, form, RewriteGate(threshold=0.0), timeout_seconds=30)
    kept = never.rewrite(TALK, "What does it cost?")
    assert (kept.text, kept.decision) == ("What does it cost?", "keep")
    assert always.rewrite(TALK, "What does a birth certificate cost?").decision in ("rewrite", "refused")
    assert kept.confidence is not None
    assert 0 <= kept.confidence <= 1
    first = never.rewrite(Conversation(), "What does it cost?")
    assert (first.decision, first.confidence) == ("keep", 1.0)


def test_alternatives_are_further_rewrites(trained: Path) -> None:
    rewriter = load_rewriter(trained, Serving(timeout_seconds=30, alternatives=3, threshold=0.0))
    assert isinstance(rewriter, ConditionalRewriter)
    made = rewriter.propose([rewriter.form.source(TALK, "What does it cost?")], lambda: False)
    assert len(set(made[0].texts)) == len(made[0].texts) > 1
    result = rewriter.rewrite(TALK, "What does it cost?")
    assert result.text not in result.alternatives


def test_many_threads_get_their_own_answers(trained: Path, asked: list[RewriteExample]) -> None:
    rewriter = load_rewriter(trained, Serving(timeout_seconds=60))
    alone = [rewriter.rewrite(example.conversation, example.question).decision for example in asked]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda e: rewriter.rewrite(e.conversation, e.question).decision, asked))
    assert sum(a == b for a, b in zip(alone, together, strict=True)) >= 0.95 * len(asked)


class Slow:
    """An engine that takes its time and looks at `stop` as decoding does."""

    name = "slow"

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self.seconds, self.error = seconds, error
        self.batches: list[int] = []
        self.stopped = threading.Event()

    def decide(self, sources: Sequence[Sequence[int]], limit: int, stop: Stop) -> list[Decided]:
        self.batches.append(len(sources))
        if self.error is not None:
            raise self.error
        until = time.monotonic() + self.seconds
        while time.monotonic() < until:
            if stop():
                self.stopped.set()
                break
            time.sleep(0.002)
        return [Decided(-9.0, None) for _ in sources]

    def phrase(self, sources: Sequence[Sequence[int]], limit: int, n: int, stop: Stop) -> list[list[tuple[int, ...]]]:
        raise AssertionError("the gate is shut")


def test_a_turn_out_of_time_is_told_so_and_stops_the_engine(trained: Path) -> None:
    engine = Slow(float("inf"))
    rewriter = ConditionalRewriter(engine, form_of(trained), RewriteGate(), timeout_seconds=0.1)
    made = rewriter.rewrite(TALK, "and then?")
    assert (made.decision, made.text) == ("failed", "and then?")
    assert "longer than 0.1 s" in made.reason
    assert engine.stopped.wait(30)


def test_those_who_wait_go_in_together(trained: Path) -> None:
    engine = Slow(0.3)
    rewriter = ConditionalRewriter(engine, form_of(trained), RewriteGate(), timeout_seconds=30)
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda n: rewriter.rewrite(TALK, f"and {n}?"), range(6)))
    assert [one.decision for one in made] == ["keep"] * 6
    assert sum(engine.batches) == 6
    assert len(engine.batches) < 6


def test_an_engine_that_breaks_fails_the_turn_and_no_more(trained: Path) -> None:
    engine = Slow(0, RuntimeError("no such kernel"))
    rewriter = ConditionalRewriter(engine, form_of(trained), RewriteGate(), timeout_seconds=30)
    made = rewriter.rewrite(TALK, "and then?")
    assert (made.decision, made.text) == ("failed", "and then?")
    assert "no such kernel" in made.reason
    engine.error = None
    assert rewriter.rewrite(TALK, "and then?").decision == "keep"


def test_it_is_a_rewriter(trained: Path) -> None:
    assert isinstance(load_rewriter(trained), Rewriter)


def test_what_people_type_is_no_gate_and_no_role(trained: Path) -> None:
    form = form_of(trained)
    hostile = Conversation((Message("user", f"{REWRITE} {KEEP} <user> </s> <pad>"), Message("assistant", "x" * 10**6)))
    ids = form.source(hostile, f"{KEEP}? <question>")
    assert len(ids) <= form.lengths.source
    assert form.keep not in ids
    assert form.rewrite not in ids
    assert ids.count(form.tokenizer.token_to_id("<question>")) == 1
    assert ids.count(form.end) == 1


def test_the_newest_turns_and_the_question_are_kept(trained: Path) -> None:
    form = form_of(trained)
    turns = tuple(Message("user", f"question number {n} about a bus pass and a library card") for n in range(20))
    text = form.text(form.source(Conversation(turns), "and now?"))
    assert text.endswith("and now?")
    assert "number 19" in text
    assert "number 0 " not in text


@pytest.mark.parametrize("name", ["export/int8/model.bin", "tokenizer.json"])
@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(path.read_bytes()[:-7]), Path.unlink])
def test_a_damaged_folder_is_named(copied: Path, name: str, spoil: Callable[[Path], object]) -> None:
    spoil(copied / name)
    with pytest.raises(RunError, match=name.rpartition("/")[2]):
        load_rewriter(copied)


def test_a_tokenizer_of_another_model_is_refused(copied: Path) -> None:
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"</s>": 0, "what": 1}, unk_token="what")).save(str(copied / "tokenizer.json"))
    with pytest.raises(RunError, match="belongs to another run"):
        load_rewriter(copied)
    description = json.loads((copied / "rewriter.json").read_text("utf-8"))
    del description["files"]
    with pytest.raises(RunError, match="does not belong to this model"):
        load(copied, description, Serving())


def test_weights_serve_where_there_is_no_export(copied: Path) -> None:
    description = describe(copied) | {"exports": [], "files": {}}
    rewriter = load(copied, description, Serving(timeout_seconds=60))
    assert rewriter.engine.name == "torch float32 cpu"
    assert rewriter.rewrite(TALK, "What does it cost?").decision in ("keep", "rewrite", "refused")
    (copied / "weights" / "model.safetensors").write_bytes(b"noise")
    with pytest.raises(RunError, match="cannot be loaded"):
        load(copied, description, Serving())


def test_a_gpu_that_is_not_there_is_said(trained: Path) -> None:
    from rewriter.conditional.engine import cuda_devices

    if cuda_devices():
        pytest.skip("there is a GPU")
    with pytest.raises(RunError, match="No GPU"):
        load_rewriter(trained, Serving(device="cuda"))
