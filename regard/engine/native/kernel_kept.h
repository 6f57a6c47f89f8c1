// Keys and values as they are kept: as floats, or in pairs, two numbers of 16 bits in a word of 32.
//
// A number of 16 bits is the upper half of a float, rounded. Where weights have 8 bits it loses nothing that counts,
// and attention waits for half as much memory. The words of a head hold 32 numbers in 16: the first 16 in their lower
// halves, the others in their upper ones, so that numbers come out in order.

typedef uint32_t Words __attribute__((vector_size(4 * REGARD_LANES), aligned(4), may_alias));
typedef uint32_t WordLanes __attribute__((vector_size(4 * REGARD_LANES)));

static inline int64_t whole_lanes(int64_t items) { return (items + 15) / 16 * 16; }

struct Two {
  Lanes one, other;
};

static inline Two unpaired(const uint32_t* from) {
  WordLanes words = *reinterpret_cast<const Words*>(from);
  return Two{reinterpret_cast<Lanes>(words << 16), reinterpret_cast<Lanes>(words & 0xffff0000u)};
}

// To the nearest, of two as near the even one; NaN stays NaN.
static inline WordLanes upper_half(Lanes value) {
  WordLanes bits = reinterpret_cast<WordLanes>(value);
  WordLanes nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
  return (value == value ? nearest : bits | 0x400000u) & 0xffff0000u;
}

static inline void save_pairs(uint32_t* to, Lanes one, Lanes other) {
  *reinterpret_cast<Words*>(to) = (upper_half(one) >> 16) | upper_half(other);
}

struct Floats {
  static constexpr int64_t whole = 2 * LANES;  // heads of so many numbers need no care at their end
  static int64_t room(int64_t width) { return width; }
  // Columns of the two vectors that begin at a place.
  static int64_t first(int64_t place) { return 2 * place; }
  static int64_t second(int64_t place) { return 2 * place + LANES; }
  static const float* at(const void* item, int64_t skipped) { return static_cast<const float*>(item) + skipped; }
  template <bool WHOLE>
  static Two two(const float* head, int64_t place, int64_t width) {
    return Two{part<WHOLE>(head, first(place), width), part<WHOLE>(head, second(place), width)};
  }
  static const float* keys_of(const Attend& a, int64_t head, int64_t padded) {
    return a.keys + head * a.width * padded;
  }
  static Two two_inputs(const float* keys, int64_t input, int64_t padded, int64_t item) {
    return Two{load(keys + input * padded + item), load(keys + (input + 1) * padded + item)};
  }
  static Lanes last_input(const float* keys, int64_t input, int64_t padded, int64_t item) {
    return load(keys + input * padded + item);
  }
  static const float* values_of(const Attend& a, int64_t head) { return a.values + head * a.value_width; }
  static int64_t value_stride(const Attend& a) { return a.value_stride; }
  static void call(const float*, int64_t) {}
};

struct Pairs {
  static constexpr int64_t whole = 32;
  static int64_t room(int64_t width) { return pair_room(width); }
  static int64_t first(int64_t place) { return place / 16 * 32 + place % 16; }
  static int64_t second(int64_t place) { return first(place) + 16; }
  static const uint32_t* at(const void* item, int64_t skipped) { return static_cast<const uint32_t*>(item) + skipped; }
  template <bool WHOLE>
  static Two two(const uint32_t* head, int64_t place, int64_t) {
    return unpaired(head + place);
  }
  static const uint32_t* keys_of(const Attend& a, int64_t head, int64_t padded) {
    return a.key_pairs + head * ((a.width + 1) / 2) * padded;
  }
  static Two two_inputs(const uint32_t* keys, int64_t input, int64_t padded, int64_t item) {
    return unpaired(keys + input / 2 * padded + item);
  }
  static Lanes last_input(const uint32_t* keys, int64_t input, int64_t padded, int64_t item) {
    return two_inputs(keys, input, padded, item).one;
  }
  static const uint32_t* values_of(const Attend& a, int64_t head) {
    return a.value_pairs + head * a.items * room(a.value_width);
  }
  static int64_t value_stride(const Attend& a) { return room(a.value_width); }
  // What the next sentence has there.
  static void call(const uint32_t* here, int64_t ahead) {
    __builtin_prefetch(reinterpret_cast<const char*>(here) + ahead, 0, 2);
  }
};

// Heads of a row, each `stride` words behind the one before.
static void pair_heads(const float* in, int64_t heads, int64_t width, uint32_t* out, int64_t stride) {
  for (int64_t head = 0; head < heads; ++head, in += width, out += stride)
    for (int64_t place = 0; place < pair_room(width); place += LANES)
      save_pairs(out + place, part(in, Pairs::first(place), width), part(in, Pairs::second(place), width));
}

// Keys of the items of a sentence, item by item, to pairs of inputs: [ceil(width / 2)][padded items].
static void pair_keys(const float* in, int64_t items, int64_t width, int64_t stride, uint32_t* out) {
  int64_t padded = whole_lanes(items);
  for (int64_t input = 0; input < width; input += 2, out += padded)
    for (int64_t item = 0; item < padded; item += LANES) {
      float one[REGARD_LANES] = {}, other[REGARD_LANES] = {};
      for (int64_t lane = 0; lane < LANES && item + lane < items; ++lane) {
        const float* from = in + (item + lane) * stride + input;
        one[lane] = from[0];
        other[lane] = input + 1 < width ? from[1] : 0.0f;
      }
      save_pairs(out + item, load(one), load(other));
    }
}
