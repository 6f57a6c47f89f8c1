// All functions of one translation unit.

static const Kernels TABLE = {
    REGARD_NAME,  quantise,    norm,            product, product_sum, product_int32, project, attend,
    attend_past,  attend_additive, powers, gate,      activate, turn,         lstm,    gru,
    gru_cho_gates, gru_cho_blend, pair_heads, pair_keys, survey,  weigh,
};
