"""Training in half precision does not grow with every new number of rows in a batch."""

import subprocess
import sys

import pytest

PROGRAM = """
from regard.process import keep_few_programs, memory_now
import torch
from torch.nn.functional import linear

def products(first, last):
    for rows in range(first, last):
        linear(torch.ones(rows, 64, dtype=torch.bfloat16), weight)

keep_few_programs()
weight = torch.ones(64, 64, dtype=torch.bfloat16)
products(1, 300)
before = memory_now()
products(300, 900)
print(memory_now() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is not told")
def test_programs_of_products_are_forgotten():
    """600 numbers of rows; with all of their programs kept, these take 400 MB."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60_000_000
