"""`/v1/models`: each collection is a model."""
