"""Runs of a home: what commands leave in their folders, started, watched, stopped and resumed from the workbench.

plans      what may be started, and the argument list that becomes of a closed set of fields
commands   the child processes, and the record each leaves beside what it makes
reading    how far a run is, its curves, figures and tables, from the files of its folder
promotion  which trained run serves
"""
