"""Many questions at once, from file to file: read (`queries`), rewritten (`rewrites`), searched (`searches`)."""
