"""What `benchmarks/recipes.py` is made of: which recipes are judged how, their training, and the page about them."""
