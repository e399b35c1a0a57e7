"""`/v1/chat/completions`: a collection answers as if it were a model.

`fastapi-openai-compat` was weighed and left: it ends streams without `[DONE]`, knows no error after a
stream has begun, answers errors in FastAPI's shape, and does not notice a reader who left.
"""
