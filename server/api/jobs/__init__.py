"""`/v1/jobs`: work on collections, and how far it is."""
