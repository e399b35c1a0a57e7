"""Evaluation: data sets, the settings compared, runs kept in folders, what differs between two of them.

The rooms are put together by the code of a chat turn, and what comes out is measured. The command line is `cli.eval`.
"""
