"""Measures of rankings, rewrites, answers and questions, and how sure a difference of two means is."""
