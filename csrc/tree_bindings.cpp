// The native module of drafting; the only file of the suffix tree that knows Python.
//
// A tree has a lock of its own, held for one call (append) or one sequence's draft, so that threads
// may share it: a drafting batch runs without the GIL, and nobody waits for the GIL under a lock.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "suffix_tree/drafter.h"
#include "suffix_tree/suffix_tree.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

using Tokens = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const int32_t> span_of(const Tokens& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens.data()[i] < 0) throw nb::value_error("a token id is negative");
  }
  return {tokens.data(), tokens.size()};
}

struct Tree {
  explicit Tree(uint32_t max_depth) : tree(max_depth) {}

  mutable std::mutex mutex;
  seer::SuffixTree tree;
};

struct Cursor {
  std::shared_ptr<Tree> shared;
  uint32_t sequence;

  seer::Match match() const {
    const std::lock_guard lock(shared->mutex);
    return shared->tree.match(sequence);
  }
};

void set_prompt(Tree& self, const Tokens& tokens, uint32_t weight) {
  const std::span<const int32_t> span = span_of(tokens);
  const nb::gil_scoped_release nogil;
  const std::lock_guard lock(self.mutex);
  self.tree.set_prompt(span, weight);
}

// Length of the sequence afterwards. Tokens that it has are passed over; IndexError over a gap.
size_t append(Tree& self, int64_t id, int64_t prev_num_tokens, const Tokens& tokens) {
  const std::span<const int32_t> span = span_of(tokens);
  const nb::gil_scoped_release nogil;
  const std::lock_guard lock(self.mutex);
  const size_t known = self.tree.contains(id) ? self.tree.tokens(self.tree.open(id)).size() : 0;
  const auto prev = static_cast<size_t>(prev_num_tokens);  // a negative one is beyond any length
  if (prev > known) throw std::out_of_range("tokens are missing before these");
  const uint32_t sequence = self.tree.open(id);
  const size_t passed = std::min(known - prev, span.size());
  self.tree.append(sequence, span.subspan(passed));
  return self.tree.tokens(sequence).size();
}

Cursor cursor(const std::shared_ptr<Tree>& shared, int64_t id, bool follow_own) {
  const std::lock_guard lock(shared->mutex);
  const uint32_t sequence = shared->tree.open(id);
  if (follow_own) shared->tree.follow_own(sequence);
  return {shared, sequence};
}

template <typename T>
nb::object to_numpy(std::vector<T>&& values) {
  auto* held = new std::vector<T>(std::move(values));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->data(), {held->size()}, owner));
}

nb::tuple speculate_batch(const nb::sequence& cursors, const Tokens& max_nodes, uint32_t top_k,
                          float min_probability, float recency_weight, float own_weight) {
  std::vector<const Cursor*> batch;
  batch.reserve(nb::len(cursors));
  for (const nb::handle cursor : cursors) batch.push_back(&nb::cast<const Cursor&>(cursor));
  const std::span<const int32_t> budgets = span_of(max_nodes);
  if (budgets.size() != batch.size()) throw nb::value_error("one budget for each cursor");
  seer::Drafts drafts;
  {
    const nb::gil_scoped_release nogil;
    seer::Drafter drafter({top_k, min_probability}, {recency_weight, own_weight});
    for (size_t i = 0; i < batch.size(); ++i) {
      const std::lock_guard lock(batch[i]->shared->mutex);
      drafter.draft(batch[i]->shared->tree, batch[i]->sequence,
                    static_cast<uint32_t>(budgets[i]), drafts);
    }
  }
  return nb::make_tuple(to_numpy(std::move(drafts.token_ids)), to_numpy(std::move(drafts.parents)),
                        to_numpy(std::move(drafts.probabilities)),
                        to_numpy(std::move(drafts.offsets)),
                        to_numpy(std::move(drafts.match_lengths)));
}

// A getter that takes the tree's lock.
template <typename Get>
auto locked(Get get) {
  return [get](const Tree& self) {
    const std::lock_guard lock(self.mutex);
    return get(self.tree);
  };
}

}  // namespace

NB_MODULE(_suffix_tree, m) {
  using seer::SuffixTree;
  nb::class_<Cursor>(m, "Cursor").def_prop_ro("match_length", [](const Cursor& self) {
    return self.match().length;
  });
  nb::class_<Tree>(m, "Tree")
      .def(nb::init<uint32_t>(), "max_depth"_a)
      .def("set_prompt", &set_prompt, "tokens"_a, "weight"_a)
      .def("append", &append, "sequence"_a, "prev_num_tokens"_a, "tokens"_a)
      .def("cursor", &cursor, "sequence"_a, "follow_own"_a)
      .def("check_integrity", locked([](const SuffixTree& tree) { tree.check_integrity(); }))
      .def("count", [](const Tree& self, const Tokens& context, int32_t next) {
        const std::lock_guard lock(self.mutex);
        return self.tree.count(span_of(context), next);
      }, "context"_a, "next_token"_a)
      .def_prop_ro("num_tokens", locked([](const SuffixTree& tree) { return tree.num_tokens(); }))
      .def_prop_ro("num_sequences",
                   locked([](const SuffixTree& tree) { return tree.num_sequences(); }))
      .def_prop_ro("memory_usage",
                   locked([](const SuffixTree& tree) { return tree.memory_usage(); }));
  m.def("speculate_batch", &speculate_batch, "cursors"_a, "max_nodes"_a, "top_k"_a,
        "min_probability"_a, "recency_weight"_a, "own_weight"_a);
}
