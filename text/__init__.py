"""The ground under the other rooms: sentences, words, unsafe characters, files, names, extras and plugins, one of each.

The names listed here are for programs and for distributions that extend Anaphora; they are imported on first use. This
room imports no other.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
