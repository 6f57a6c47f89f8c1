#include "constraint.h"

#include <algorithm>

#include "guard.h"

namespace regard {
namespace {

constexpr int64_t MOST_STATES = int64_t{1} << 31, MOST_GOAL = int64_t{1} << 40;
constexpr int64_t SPARSE = 16;  // one token of so many can come next: they are listed

}  // namespace

ConstraintState::ConstraintState(const ToldState& told, int64_t vocabulary)
    : may_end(told.may_end != 0), progress(told.progress), enough(told.enough) {
  if (told.count < 0 || told.way_count < 0) throw Refused("a state of a constraint has a negative size");
  for (int64_t at = 0; at < told.count; ++at) {
    bool real = told.tokens[at] >= 0 && told.tokens[at] < vocabulary && told.tokens[at] != END;
    bool ordered = !at || told.tokens[at - 1] < told.tokens[at];
    if (!real || !ordered || told.ways[at] < 0 || told.ways[at] >= told.way_count)
      throw Refused("a state of a constraint has tokens or ways that there cannot be");
  }
  if (std::any_of(told.states, told.states + told.way_count, [](int32_t one) { return one < 0; }))
    throw Refused("a state of a constraint leads to one that there cannot be");
  states.assign(told.states, told.states + told.way_count);
  progresses.assign(told.progresses, told.progresses + told.way_count);
  if (told.distances) distances.assign(told.distances, told.distances + told.way_count);
  for (int64_t at = 0; at < told.count; ++at)
    if (progresses[told.ways[at]] > progress) helpful.push_back(told.tokens[at]);
  if (told.count * SPARSE < vocabulary) {
    tokens_.assign(told.tokens, told.tokens + told.count);
    ways_.assign(told.ways, told.ways + told.count);
    return;
  }
  dense_.assign(vocabulary, -1);
  for (int64_t at = 0; at < told.count; ++at) dense_[told.tokens[at]] = told.ways[at];
}

int32_t ConstraintState::way(int32_t token) const {
  if (!listed()) return dense_[token];
  auto found = std::lower_bound(tokens_.begin(), tokens_.end(), token);
  return found == tokens_.end() || *found != token ? -1 : ways_[found - tokens_.begin()];
}

int64_t ConstraintState::bytes() const {
  size_t words = tokens_.size() + ways_.size() + dense_.size() + states.size() + helpful.size();
  return static_cast<int64_t>(sizeof(*this) + 4 * words + 8 * (progresses.size() + distances.size()));
}

Constraint::Constraint(int64_t vocabulary, int64_t goal, int64_t room)
    : vocabulary(vocabulary), goal(goal), room_(room) {
  if (vocabulary < 1 || goal < 0 || goal > MOST_GOAL || room < 0) throw Refused("a constraint is not one that there can be");
}

template <class Found, class Find>
Found Constraint::found(int64_t number, int64_t left, Ask ask, Find find) {
  auto known = [&] {
    std::lock_guard<std::mutex> lock(mutex_);
    return Found(find());
  };
  if (Found here = known()) return here;
  std::lock_guard<std::mutex> lock(asking_);
  if (Found here = known()) return here;  // somebody else has asked meanwhile
  if (ask(this, number, left)) throw Stopped("a constraint could not be told");
  if (Found here = known()) return here;
  throw Refused("a constraint does not tell what it is asked");
}

std::shared_ptr<const ConstraintState> Constraint::state(int32_t number, Ask ask) {
  return found<std::shared_ptr<const ConstraintState>>(number, -1, ask, [&] {
    auto known = states_.find(number);
    return known == states_.end() ? nullptr : known->second;
  });
}

void Constraint::open_ways(int32_t number, const ConstraintState& state, int64_t left, Ask ask,
                           std::vector<uint8_t>* open) {
  size_t ways = state.states.size();
  open->assign(ways, left > 0);
  if (left <= 0 || left > state.enough) return;
  if (state.distances.size() == ways) {
    for (size_t way = 0; way < ways; ++way) (*open)[way] = state.distances[way] < left;
    return;
  }
  Ways told = found<Ways>(number, left, ask, [&] {
    auto known = open_.find({number, left});
    return known == open_.end() ? nullptr : known->second;
  });
  if (told->size() != ways) throw Refused("a constraint tells of other ways than a state has");
  *open = *told;
}

void Constraint::learn(int64_t number, const ToldState& told) {
  if (number < 0 || number >= MOST_STATES) throw Refused("a constraint has no such state");
  auto state = std::make_shared<const ConstraintState>(told, vocabulary);
  auto wrong = [&](int64_t progress) { return progress < 0 || progress > goal; };
  if (wrong(state->progress) || std::any_of(state->progresses.begin(), state->progresses.end(), wrong))
    throw Refused("a state of a constraint has come further than there is to go");
  std::lock_guard<std::mutex> lock(mutex_);
  make_room(state->bytes());
  states_[number] = std::move(state);
}

void Constraint::open(int64_t number, int64_t left, const uint8_t* ways, int64_t count) {
  if (count < 0) throw Refused("a state of a constraint has a negative size");
  Ways told = std::make_shared<const std::vector<uint8_t>>(ways, ways + count);
  std::lock_guard<std::mutex> lock(mutex_);
  make_room(100 + count);
  open_[{number, left}] = std::move(told);
}

void Constraint::make_room(int64_t bytes) {
  if (kept_ + bytes > room_) {
    states_.clear();
    open_.clear();
    kept_ = 0;
  }
  kept_ += bytes;
}

}  // namespace regard

using namespace regard;

REGARD_API int32_t regard_constraint_new(int64_t vocabulary, int64_t goal, int64_t room, void** constraint,
                                         char* message) {
  return guarded(message, [&] { *constraint = new Constraint(vocabulary, goal, room); });
}

REGARD_API void regard_constraint_free(void* constraint) { delete static_cast<Constraint*>(constraint); }

REGARD_API int32_t regard_constraint_learn(void* constraint, int64_t state, const void* told, char* message) {
  return guarded(message,
                 [&] { static_cast<Constraint*>(constraint)->learn(state, *static_cast<const ToldState*>(told)); });
}

// Which ways of a state are open where so many tokens are left.
REGARD_API int32_t regard_constraint_open(void* constraint, int64_t state, int64_t left, const uint8_t* ways,
                                          int64_t count, char* message) {
  return guarded(message, [&] { static_cast<Constraint*>(constraint)->open(state, left, ways, count); });
}
