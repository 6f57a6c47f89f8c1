// Random numbers that are a function of what they are for: those of regard/search/chance.py.
#pragma once

#include <cstdint>

namespace regard {

// The finaliser of SplitMix64 (Steele, Lea & Flood 2014).
inline uint64_t mixed(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
  return word ^ (word >> 31);
}

// A key grows by its next part; it begins with 0.
inline uint64_t followed(uint64_t key, uint64_t part) { return mixed(key ^ mixed(part + 0x9E3779B97F4A7C15u)); }

// A number in [0, 1).
inline double uniform(uint64_t key) { return static_cast<double>(key >> 11) * 0x1p-53; }

}  // namespace regard
