"""Answer, ask back or refuse: the decision fitted on marked questions, and what it is worth."""
