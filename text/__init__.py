"""The ground under the other rooms: sentences, words, unsafe characters, files, names, extras and plugins, one of each.

What is named here is what a program, or a distribution that adds to Anaphora, needs of it; it is imported when it is
first used. This room imports no other.
"""

from text.modules import exports

__all__, __getattr__ = exports(__name__, __file__)
