"""The parts of benchmarks/speed.py: the models, the peers, how each is driven, and the page."""
