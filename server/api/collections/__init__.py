"""`/v1/collections`: collections and their documents."""
