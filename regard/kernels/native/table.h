// All functions of one translation unit.

#if defined(REGARD_BFLOAT16)
static const HalfKernels HALF = {
    packed_room, pack,      multiply_room, multiply_some, turned_room, multiply_turned,
    LOSS_ROWS,   loss_room, loss_begin,    loss_rows,     loss_scale,  loss_words,
};
#endif

static const Kernels TABLE = {
    REGARD_NAME, dropped, rectified, rectified_backward, normed, normed_backward,
#if defined(REGARD_BFLOAT16)
    half_attention_room, half_attention, half_attention_backward,
#else
    attention_room, attention, attention_backward,
#endif
    peaked, agreed, gated, compared, summed, chosen, step_room, stepped,
#if defined(REGARD_BFLOAT16)
    &HALF,
#else
    nullptr,
#endif
};
