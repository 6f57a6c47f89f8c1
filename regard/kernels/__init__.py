"""Native kernels for what of a training step is not a matrix product: short attention, dropout with what stands beside
it, the norm after a residual connection, the errors of a wide softmax.

They are optional, and for single precision on CPUs: `nn` asks `serves` and takes torch's own way where the answer is
no. Nothing here is imported before it is used: `regard.engine.build` must run where there is nothing but Python.
"""
