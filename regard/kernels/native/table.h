// All functions of one translation unit.

static const Kernels TABLE = {
    REGARD_NAME,     dropped,        rectified, rectified_backward, normed,
    normed_backward, attention_room, attention, attention_backward, peaked,
    gated,           compared,       summed,    chosen,
};
