// What the kernels of training and of search compute, for any processor: the arguments, and a table of functions for each set of
// instructions. Each function does a range of rows (or of pairs of a row and a key head), so that threads can share
// them, and what it writes does not depend on how they were dealt out.
#pragma once

#include <cstdint>

namespace regard {

// Dropout. What becomes of a number is a function of the seed, its row and its column alone.
struct Chance {
  uint32_t keys[3];
  uint32_t limit;  // of 2^16 numbers, how many are dropped
  float scale;     // of the others
};

struct Dropped {
  Chance chance;
  int64_t width;
  const float* states;  // what is added to, or null
  const float* result;  // what is dropped from
  float* out;
};

// How many rows are summed up in one go: gradients of biases and gains are sums of such sums, whoever makes them. Also
// how many words of a vocabulary are looked at as one where the best are sought.
constexpr int64_t BLOCK = 64;

constexpr int64_t PANEL = 64;  // columns of a product of bfloat16 numbers that are made together

// Numbers of products, their factors and gradients are floats, or where `narrow` says so bfloat16; all else is floats.

// out = dropped(max(0, in + bias)), or its gradient. Both may be where `in` or `gradient` is.
struct Rectified {
  Chance chance;
  int64_t rows, width, narrow;
  const void* in;  // forward: the states; backward: the result
  const float* bias;
  const void* gradient;
  void* out;
  float* sums;  // (blocks, D) of the gradient
};

// out = norm(states + dropped(product + shift)) · gain + bias.
struct Normed {
  Chance chance;
  int64_t rows, width, narrow;
  float epsilon;
  const void* product;
  const float* states;
  const float* shift;
  const float* gain;
  const float* bias;
  float* standard;  // (R, D) what the norm makes of the sum, before gain and bias; may be where the product is
  float* out;
  float* inverse;   // (R) 1 / √(variance + ε)
};

struct NormedBackward {
  Chance chance;
  int64_t rows, width, narrow;
  const float* gradient;
  const float* standard;
  const float* inverse;
  const float* gain;
  float* of_states;
  void* of_product;   // null where it is that of the states: nothing is dropped, and nothing narrow
  float* sums;        // (blocks, 3, D) of gain, bias and shift
};

// Shapes: B rows, Q queries, N keys, H heads, G key heads, E width of a head.
struct Attention {
  int64_t rows, queries, keys, heads, key_heads, width;
  int64_t causal, narrow;
  float scale;
  int64_t query_stride, key_stride;  // of an item
  const void* query;      // (B, Q, H · E)
  const void* key;        // (B, N, 2 · G · E), keys before values
  const float* query_bias;  // (H · E) what is to be added to every query, or null
  const float* key_bias;    // (2 · G · E)
  const uint8_t* mask;    // (B, N) or null
  int64_t mask_stride;    // of a row
  void* context;          // (B, Q, H · E)
  float* softmax;         // (B, H, 2, Q) the largest score and 1 / Σ exp(score - largest)
  const void* gradient;   // of the context
  void* of_query;  // by strides as what they are of
  void* of_key;
  float* query_sums;  // (B, H · E) over the items of a row, or null
  float* key_sums;    // (B, 2 · G · E)
};

// Logits become exp(logit - largest), less `share` of their sum at the label; their sum's inverse is kept beside.
struct Peaked {
  int64_t width;
  float share;
  int64_t writes;
  int64_t narrow;  // whether logits are in half precision
  void* logits;
  const int64_t* labels;
  float* chosen;      // (R) the log-probability of the label
  float* normaliser;  // (R) log Σ exp(logit)
  float* inverse;     // (R)
};

// The gates of an LSTM: the total of a row is a base of its own and what its row of before carries.
// i, f, o = σ(·), g = tanh(·), c' = f ∘ c + i ∘ g, h' = o ∘ tanh(c').
struct Gated {
  int64_t width;
  const float* bases;           // (·, 4 · D)
  const int64_t* base_rows;     // (R) which of them
  const float* carried;         // (·, 4 · D)
  const int64_t* carried_rows;  // (R), or null: row by row
  const float* memory;          // (R, D) c
  float* hidden;                // (R, D) h'
  float* kept;                  // (R, D) c'
};

// Additive attention, Σ softmax(vᵀ tanh(query + key)) value. Shapes: B rows, Q queries, N keys, A and E widths.
struct Compared {
  int64_t queries, keys, width, value_width;
  const float* query;   // (B, Q, A)
  const float* key;     // (B, N, A)
  const float* value;   // (B, N, E)
  const float* energy;  // (A) v
  const uint8_t* mask;  // (B, N) or null
  int64_t mask_stride;  // of a row
  float* weights;       // (B, Q, N)
  float* context;       // (B, Q, E)
};

// log Σ exp(logit) of each row, and the largest logit of each BLOCK of it.
struct Summed {
  int64_t width;
  const float* logits;  // (R, V)
  float* normaliser;    // (R)
  float* largest;       // (R, blocks)
};

// The best continuations of each sentence, best first. Shapes: S sentences, K beams, V vocabulary, C continuations.
struct Chosen {
  int64_t beams, width, count, forbids;
  const double* scores;      // (S, K)
  const float* logits;       // (S, K, V)
  const float* normaliser;   // (S, K) what logits are lessened by
  const float* largest;      // (S, K, blocks) the largest logit of each BLOCK of the vocabulary
  const int64_t* forbidden;  // what must not come out; the last of them only where it is early
  const uint8_t* early;      // (S)
  double* values;            // (S, C) -∞ where there is none; the first is NaN where the model says no numbers
  int64_t* rows;             // (S, C)
  int64_t* tokens;           // (S, C)
};

// A step of all layers of a Transformer's decoder for the rows of one sentence. Shapes: K rows, L layers, D width, F inner
// width, H heads of cross-attention, N items of the memory, R room for entries of the past, C of them in use. Entries
// are a key and a value of all heads; those of this step are the last K.
struct StepProduct {
  const float* weight;  // (inputs, outputs)
  const float* bias;    // (outputs) or null
};
struct StepNorm {
  const float* gain;  // (D)
  const float* bias;  // (D) or null
  float epsilon;
};
struct StepLayer {
  StepProduct asked;         // (D, 3 D) queries, scaled, keys and values
  StepProduct output;        // (D, D)
  StepProduct inner, outer;  // (D, F), (F, D)
  const float* cross_bias;   // (D) or null
  StepNorm norms[3];         // of self-attention, cross-attention and what follows
};
struct Stepped {
  int64_t rows, layers, heads, cross_heads, width, inner, items, room, entries, norm_first;
  const StepLayer* parts;  // (L)
  const float* keys;       // (L, D, H·N) of the memory, with the projection of queries in them
  const float* shifts;     // (L, H·N)
  const float* values;     // (L, H·N, D) with the projection of outputs in them
  const float* seen;       // (K, R) 0 where a row sees an entry
  float* past;             // (L, R, 2, D)
  float* states;           // (K, D) what goes in and what comes out
};

// Pairs of rows of logits, two draws each: the mean of their losses and `weight` times the mean of their divergences to
// each other. Errors are what that means for logits. Shapes: P pairs, V vocabulary.
struct Agreed {
  int64_t pairs, width, narrow;  // narrow: errors are bfloat16
  float share, even, weight;     // of the label, of every word, of the divergence
  const float* logits;           // (2, P, V)
  const int64_t* labels;         // (P)
  void* errors;                  // (2, P, V) or null; floats may take the place of the logits
  float* likelihood;             // (2, P) log Σ exp(logit) less the label's
  float* uniform;                // (2, P) the same less the mean
  float* divergence;             // (P)
};

// The loss of rows of features, whose logits are x Wᵀ + b, and its gradients. With e = exp(logit - that of the label) and
// the target distribution (1 - ε) · one-hot + ε / V, errors are e / Σ e less `share` = 1 - ε at the label; what the even
// share means for gradients is what they begin with. Shapes: R rows, D width, V vocabulary.
struct Loss {
  int64_t rows, width, vocabulary;
  float share;
  float even_of_bias;
  const float* features;          // (R, D)
  const float* weight;            // (V, D)
  const float* bias;              // (V) or null
  const int64_t* labels;          // (R)
  const float* even_of_features;  // (D)
  const float* even_of_weight;    // (D)
  float* chosen;                  // (R) the log-probability of the label
  float* normaliser;              // (R) log Σ exp(logit)
  float* of_features;             // (R, D) or null, as the others
  float* of_weight;               // (V, D)
  float* of_bias;                 // (V)
};

// out = in · W + bias, of factors narrowed to bfloat16.
struct Product {
  int64_t rows, inner, columns;
  int64_t turned;                 // whether the weight is (columns, inner) instead of (inner, columns)
  int64_t narrow_in, narrow_out;  // whether they are bfloat16 in memory, too
  int64_t adds;                   // whether the product is added to what is there; only to floats
  const void* in;
  const float* weight;
  const float* bias;  // (columns) or null
  void* out;
  const uint32_t* packed;  // the weight as `regard_pack` has laid it out, or null
};

// The gradients of a weight and a bias: errorsᵀ · in, and the sums of errors.
struct Turned {
  int64_t rows, inputs, outputs;
  int64_t narrow_in;
  const void* errors;  // (R, outputs), in bfloat16
  const void* in;      // (R, inputs)
  float* of_weight;    // (outputs, inputs) or null
  float* of_bias;      // (outputs) or null
};

// One of several calls that are made in a row.
struct Call {
  enum Kind : int64_t { PRODUCT, TURNED, RECTIFIED, RECTIFIED_BACKWARD, NORMED, NORMED_BACKWARD, ATTENTION,
                        ATTENTION_BACKWARD };
  Kind kind;
  const void* asked;  // what the kind says
};

// Products of bfloat16 numbers, where the processor has instructions for them.
struct HalfKernels {
  int64_t (*packed_room)(const Product&);  // words that all threads need together, in panels
  void (*pack)(const Product&, int64_t first, int64_t last, uint32_t* packed);  // of panels
  int64_t (*multiply_room)(const Product&);  // words that a thread needs
  void (*multiply)(const Product&, int64_t first, int64_t last, const uint32_t* packed, uint32_t* room);
  int64_t (*turned_room)(const Turned&);  // words that a thread needs
  void (*multiply_turned)(const Turned&, int64_t first, int64_t last, uint32_t* room);  // of panels of outputs
  int64_t chunk;  // rows of a loss that are worked on at a time
  int64_t (*loss_room)(const Loss&);  // words that all threads need together
  void (*loss_begin)(const Loss&, int64_t first, int64_t last, uint32_t* room);  // of panels, which have PANEL words
  void (*loss_rows)(const Loss&, int64_t chunk, int64_t first, int64_t last, uint32_t* room);
  void (*loss_scale)(const Loss&, int64_t chunk, int64_t rows, uint32_t* room);
  void (*loss_words)(const Loss&, int64_t chunk, int64_t rows, int64_t first, int64_t last, uint32_t* room);
};

struct Kernels {
  const char* name;
  void (*dropped)(const Dropped&, int64_t first, int64_t last);
  void (*rectified)(const Rectified&, int64_t first, int64_t last);
  void (*rectified_backward)(const Rectified&, int64_t first, int64_t last);  // of blocks
  void (*normed)(const Normed&, int64_t first, int64_t last);
  void (*normed_backward)(const NormedBackward&, int64_t first, int64_t last);  // of blocks
  int64_t (*attention_room)(const Attention&);  // floats that a thread needs
  void (*attention)(const Attention&, int64_t first, int64_t last, float* room);
  void (*attention_backward)(const Attention&, int64_t first, int64_t last, float* room);
  void (*peaked)(const Peaked&, int64_t first, int64_t last);
  void (*agreed)(const Agreed&, int64_t first, int64_t last);  // of pairs
  void (*gated)(const Gated&, int64_t first, int64_t last);
  void (*compared)(const Compared&, int64_t first, int64_t last);
  void (*summed)(const Summed&, int64_t first, int64_t last);
  void (*chosen)(const Chosen&, int64_t first, int64_t last);
  int64_t (*step_room)(const Stepped&);  // floats that it needs
  void (*stepped)(const Stepped&, float* room);
  const HalfKernels* half;  // or null
};

// Null where the compiler, or its flags, could not make them.
const Kernels* amx_bf16_kernels();
const Kernels* avx512_bf16_kernels();
const Kernels* avx512_kernels();
const Kernels* avx2_kernels();
const Kernels* portable_kernels();

}  // namespace regard
