"""`/v1/feedback`: what people thought of answers."""
