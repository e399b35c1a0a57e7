"""An own vocabulary: SentencePiece's unigram model, trained on the run's own texts.

It is trained by `sentencepiece` and from then on read by `tokenizers` alone, so serving needs neither.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rewriter.conditional.form import SPECIAL_TOKENS
from rewriter.errors import TrainingError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, END = "<pad>", "<unk>", "</s>"
TEXTS = 40_000
"""At most so many different texts are read, evenly spread; more change the pieces little and take long."""


def train_vocabulary(texts: Iterable[str], size: int, seed: int) -> Tokenizer:
    """A tokenizer of `size` pieces at most; texts are normalised by NFKC, what it cannot spell becomes bytes.

    Ids 0, 1 and 2 are `<pad>`, `</s>` and `<unk>`. Raises TrainingError where there is too little text.
    """
    import sentencepiece

    model = io.BytesIO()
    unique = list(dict.fromkeys(" ".join(text.split()) for text in texts))
    unique = unique[:: 1 + len(unique) // TEXTS]
    try:
        sentencepiece.set_random_generator_seed(seed)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(unique),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=0.9995,
            byte_fallback=True,
            normalization_rule_name="nfkc",
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            pad_piece=PAD,
            eos_piece=END,
            unk_piece=UNKNOWN,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise TrainingError(f"No vocabulary of {size} pieces can be made of {len(unique)} texts ({error}).") from error
    return _as_tokenizer(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()))


def _as_tokenizer(pieces: object) -> Tokenizer:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocabulary = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(len(pieces))]  # type: ignore[attr-defined, arg-type]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    # Gates and roles stand outside the pieces: as pieces, a typed "<rewrite>" would spell one.
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (PAD, END, UNKNOWN, *SPECIAL_TOKENS)]
    )
    return tokenizer
