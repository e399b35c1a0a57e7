"""One module for each kind of thing the API shows; `server.api.app` puts their routers together."""
