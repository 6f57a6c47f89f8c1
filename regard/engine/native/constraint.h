// What outputs must be like: an automaton over tokens (regard/search/constraints), which is told state by state.
//
// Who made a constraint knows its states. A search asks for one when it first comes to it; from then on it is here, for
// this search and all others. Where too much was told it is forgotten, and asked for again.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace regard {

// A state as it is told: tokens can come next by several ways, each of which leads to another state.
struct ToldState {
  int64_t count;
  const int32_t* tokens;  // [count] in order, without END
  const int32_t* ways;    // [count] by which each comes
  int64_t way_count;
  const int32_t* states;      // [way_count] where they lead to
  const int64_t* progresses;  // [way_count] how much of what is demanded is there then
  const int64_t* distances;   // [way_count] tokens from there to an end; or null: which way is open is asked
  int64_t may_end, progress;
  int64_t enough;  // where more tokens are left, all ways are open
};

class ConstraintState {
 public:
  ConstraintState(const ToldState& told, int64_t vocabulary);

  // By which way a token comes; -1: it cannot.
  int32_t way(int32_t token) const;
  int32_t after(int32_t token) const {
    int32_t by = way(token);
    return by < 0 ? -1 : states[by];
  }
  // All tokens that can come next, where there are few; else `way` knows each at once.
  bool listed() const { return dense_.empty(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t bytes() const;

  bool may_end;
  int64_t progress, enough;
  std::vector<int32_t> states;
  std::vector<int64_t> progresses, distances;
  std::vector<int32_t> helpful;  // tokens after which more is there than before

 private:
  std::vector<int32_t> tokens_, ways_;  // where few tokens can come
  std::vector<int32_t> dense_;          // else the way of each token of the vocabulary
};

class Constraint {
 public:
  // Tells what a state is (`left` is -1) or which of its ways are open where so many tokens are left, by `learn` and
  // `open`; other than 0: it cannot be told. Each search has its own, so that it hears of its own failures.
  using Ask = int32_t (*)(void* constraint, int64_t state, int64_t left);

  // What was told is forgotten where it would be more than so many bytes.
  Constraint(int64_t vocabulary, int64_t goal, int64_t room);

  std::shared_ptr<const ConstraintState> state(int32_t number, Ask ask);
  // Which ways may be taken where so many tokens are left, the end not counted: those from which an end can be reached.
  void open_ways(int32_t number, const ConstraintState& state, int64_t left, Ask ask, std::vector<uint8_t>* open);

  void learn(int64_t number, const ToldState& told);
  void open(int64_t number, int64_t left, const uint8_t* ways, int64_t count);

  const int64_t vocabulary;
  const int64_t goal;  // the largest progress; 0: no part of the text is demanded

 private:
  using Ways = std::shared_ptr<const std::vector<uint8_t>>;

  // What `find` finds, asked for where it is not there yet.
  template <class Found, class Find>
  Found found(int64_t number, int64_t left, Ask ask, Find find);
  void make_room(int64_t bytes);

  std::mutex asking_;  // one asks at a time; whoever waits for it holds nothing that who is asked could need
  std::mutex mutex_;   // of what follows; never held while somebody is asked
  std::unordered_map<int64_t, std::shared_ptr<const ConstraintState>> states_;
  std::map<std::pair<int64_t, int64_t>, Ways> open_;
  const int64_t room_;
  int64_t kept_ = 0;
};

}  // namespace regard
