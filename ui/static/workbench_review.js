// Turns in the order of doubt, and what a person makes of each.
