"""The conditional rewriter: first decide whether a question needs its conversation, then phrase it in full.

A sequence-to-sequence or a causal language model whose first decoded token is the gate: `<no_rewrite>` ends it,
`<rewrite>` goes on with the stand-alone question. How it is trained is `rewriter.training`'s business.
"""
