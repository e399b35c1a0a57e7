"""Evidence a reader can trust: one document looked at closely, beside the turn and never in its way.

`source` is a document as it is read here, `within` finds passages in it, `spans` holds a quote with what was added and
removed, `guard` says what may not be, and `standalone` makes a quote readable away from its page.
"""
