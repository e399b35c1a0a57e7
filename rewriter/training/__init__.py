"""Training conditional rewriters: recipes, mixtures of data, runs that can be killed and resumed, and their folders."""
