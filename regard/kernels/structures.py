"""What kernels are asked for, as native/kernels.h has it."""

import ctypes

_pointer, _number = ctypes.c_void_p, ctypes.c_int64


class Chance(ctypes.Structure):
    """Dropout."""

    _fields_ = (("keys", ctypes.c_uint32 * 3), ("limit", ctypes.c_uint32), ("scale", ctypes.c_float))


class Dropped(ctypes.Structure):
    _fields_ = (("chance", Chance), ("width", _number), ("states", _pointer), ("result", _pointer), ("out", _pointer))


class Rectified(ctypes.Structure):
    _fields_ = (
        ("chance", Chance),
        ("rows", _number),
        ("width", _number),
        ("narrow", _number),
        ("given", _pointer),
        ("bias", _pointer),
        ("gradient", _pointer),
        ("out", _pointer),
        ("sums", _pointer),
    )


class Normed(ctypes.Structure):
    _fields_ = (
        ("chance", Chance),
        ("rows", _number),
        ("width", _number),
        ("narrow", _number),
        ("epsilon", ctypes.c_float),
        ("product", _pointer),
        ("states", _pointer),
        ("shift", _pointer),
        ("gain", _pointer),
        ("bias", _pointer),
        ("standard", _pointer),
        ("out", _pointer),
        ("inverse", _pointer),
    )


class NormedBackward(ctypes.Structure):
    _fields_ = (
        ("chance", Chance),
        ("rows", _number),
        ("width", _number),
        ("narrow", _number),
        ("gradient", _pointer),
        ("standard", _pointer),
        ("inverse", _pointer),
        ("gain", _pointer),
        ("of_states", _pointer),
        ("of_product", _pointer),
        ("sums", _pointer),
    )


class Attended(ctypes.Structure):
    _fields_ = (
        ("rows", _number),
        ("queries", _number),
        ("keys", _number),
        ("heads", _number),
        ("key_heads", _number),
        ("width", _number),
        ("causal", _number),
        ("narrow", _number),
        ("scale", ctypes.c_float),
        ("query_stride", _number),
        ("key_stride", _number),
        ("query", _pointer),
        ("key", _pointer),
        ("query_bias", _pointer),
        ("key_bias", _pointer),
        ("mask", _pointer),
        ("mask_stride", _number),
        ("context", _pointer),
        ("softmax", _pointer),
        ("gradient", _pointer),
        ("of_query", _pointer),
        ("of_key", _pointer),
        ("query_sums", _pointer),
        ("key_sums", _pointer),
    )


class Peaked(ctypes.Structure):
    _fields_ = (
        ("width", _number),
        ("share", ctypes.c_float),
        ("writes", _number),
        ("narrow", _number),
        ("logits", _pointer),
        ("labels", _pointer),
        ("chosen", _pointer),
        ("normaliser", _pointer),
        ("inverse", _pointer),
    )


class Agreed(ctypes.Structure):
    _fields_ = (
        ("pairs", _number),
        ("width", _number),
        ("narrow", _number),
        ("share", ctypes.c_float),
        ("even", ctypes.c_float),
        ("weight", ctypes.c_float),
        ("logits", _pointer),
        ("labels", _pointer),
        ("errors", _pointer),
        ("likelihood", _pointer),
        ("uniform", _pointer),
        ("divergence", _pointer),
    )


class Product(ctypes.Structure):
    _fields_ = (
        ("rows", _number),
        ("inner", _number),
        ("columns", _number),
        ("turned", _number),
        ("narrow_in", _number),
        ("narrow_out", _number),
        ("adds", _number),
        ("given", _pointer),
        ("weight", _pointer),
        ("bias", _pointer),
        ("out", _pointer),
        ("packed", _pointer),
    )


class Turned(ctypes.Structure):
    _fields_ = (
        ("rows", _number),
        ("inputs", _number),
        ("outputs", _number),
        ("narrow_in", _number),
        ("errors", _pointer),
        ("given", _pointer),
        ("of_weight", _pointer),
        ("of_bias", _pointer),
    )


class Call(ctypes.Structure):
    _fields_ = (("kind", _number), ("asked", _pointer))


class Loss(ctypes.Structure):
    _fields_ = (
        ("rows", _number),
        ("width", _number),
        ("vocabulary", _number),
        ("share", ctypes.c_float),
        ("even_of_bias", ctypes.c_float),
        ("features", _pointer),
        ("weight", _pointer),
        ("bias", _pointer),
        ("labels", _pointer),
        ("even_of_features", _pointer),
        ("even_of_weight", _pointer),
        ("chosen", _pointer),
        ("normaliser", _pointer),
        ("of_features", _pointer),
        ("of_weight", _pointer),
        ("of_bias", _pointer),
    )


class Gated(ctypes.Structure):
    _fields_ = (
        ("width", _number),
        ("bases", _pointer),
        ("base_rows", _pointer),
        ("carried", _pointer),
        ("carried_rows", _pointer),
        ("memory", _pointer),
        ("hidden", _pointer),
        ("kept", _pointer),
    )


class Compared(ctypes.Structure):
    _fields_ = (
        ("queries", _number),
        ("keys", _number),
        ("width", _number),
        ("value_width", _number),
        ("query", _pointer),
        ("key", _pointer),
        ("value", _pointer),
        ("energy", _pointer),
        ("mask", _pointer),
        ("mask_stride", _number),
        ("weights", _pointer),
        ("context", _pointer),
    )


class Summed(ctypes.Structure):
    _fields_ = (("width", _number), ("logits", _pointer), ("normaliser", _pointer), ("largest", _pointer))


class Chosen(ctypes.Structure):
    _fields_ = (
        ("beams", _number),
        ("width", _number),
        ("count", _number),
        ("forbids", _number),
        ("scores", _pointer),
        ("logits", _pointer),
        ("normaliser", _pointer),
        ("largest", _pointer),
        ("forbidden", _pointer),
        ("early", _pointer),
        ("values", _pointer),
        ("rows", _pointer),
        ("tokens", _pointer),
    )


class StepProduct(ctypes.Structure):
    _fields_ = (("weight", _pointer), ("bias", _pointer))


class StepNorm(ctypes.Structure):
    _fields_ = (("gain", _pointer), ("bias", _pointer), ("epsilon", ctypes.c_float))


class StepLayer(ctypes.Structure):
    _fields_ = (
        ("asked", StepProduct),
        ("output", StepProduct),
        ("inner", StepProduct),
        ("outer", StepProduct),
        ("cross_bias", _pointer),
        ("norms", StepNorm * 3),
    )


class Stepped(ctypes.Structure):
    _fields_ = (
        ("rows", _number),
        ("layers", _number),
        ("heads", _number),
        ("cross_heads", _number),
        ("width", _number),
        ("inner", _number),
        ("items", _number),
        ("room", _number),
        ("entries", _number),
        ("norm_first", _number),
        ("parts", ctypes.POINTER(StepLayer)),
        ("keys", _pointer),
        ("shifts", _pointer),
        ("values", _pointer),
        ("seen", _pointer),
        ("past", _pointer),
        ("states", _pointer),
    )
