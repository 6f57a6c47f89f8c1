"""What `benchmarks/engine.py` measures: the native engine held against torch, CTranslate2 and the machine."""
