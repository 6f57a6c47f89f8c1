"""Runs a module of a program from before torch 2.6: `torch.load` reads whatever the program itself has written.

python old_loading.py MODULE ARGUMENTS...
"""

import runpy
import sys
from functools import partial

import torch

vars(torch)["load"] = partial(torch.load, weights_only=False)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
