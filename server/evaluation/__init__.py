"""Evaluation: data sets, the settings compared, runs kept in folders, what differs between two of them.

Every room measures what it owns (`index.metrics`, `rewriter.metrics`, `synth.metrics`); here the rooms are put
together, by the code of a chat turn, and the answers are measured. The command line is `server.cli.eval`.
"""
