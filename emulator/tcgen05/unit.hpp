// The tensor cores of a cluster's CTAs: tensor memory, its allocations, the pipe of asynchronous instructions, and what
// is known of every access.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/machine/machine.hpp"
#include "emulator/tcgen05/accesses.hpp"
#include "emulator/tcgen05/copy.hpp"
#include "emulator/tcgen05/fragments.hpp"
#include "emulator/tcgen05/product.hpp"
#include "emulator/tcgen05/reduction.hpp"

namespace kiln::emulator::tcgen05 {

/// Use of the buffer that keeps an operand from one instruction to the next.
enum class Collector : std::uint8_t { discard, fill, use, lastuse };

/// An asynchronous instruction of the tensor pipe, as it was issued.
struct PipeOp {
  enum class Kind : std::uint8_t { product, copy, shift, commit } kind = Kind::product;
  const Op* op = nullptr;
  Warp* warp = nullptr;
  int lane = 0;
  std::uint64_t issued = 0;  ///< number among the cluster's asynchronous instructions
  MmaCall product;
  Collector collector = Collector::discard;
  std::uint32_t buffer = 0;  ///< of the collector: 0 A, 1 to 4 b0 to b3
  CopyCall copy;
  std::uint32_t address = 0;    ///< shift: tensor memory
  std::uint32_t mbarrier = 0;   ///< commit: offset in each target
  std::vector<Block*> targets;  ///< commit
  Clock published;              ///< commit: what a waiter learns
};

/// What a collector buffer holds.
struct Collected {
  bool valid = false;
  std::uint64_t matrix = 0, contents = 0;  ///< descriptor or address; a sum over the bytes
  const Op* op = nullptr;
};

struct Pipe {
  std::deque<PipeOp> pending;
  std::array<Collected, 5> collected{};
};

struct Allocation {
  std::uint32_t id = 0, column = 0, columns = 0;
  Warp* warp = nullptr;
  const Op* op = nullptr;
  std::uint32_t freed = 0;  ///< of a pair: by which of its CTAs, a bit each
};

/// Allocations of one CTA, or of a pair as both see them.
struct Allocator {
  std::vector<Allocation> live;
  std::uint32_t next = 1;
  /// Instructions of a pair's CTAs in order: each has to issue the same.
  struct Step {
    const Op* op = nullptr;
    std::uint32_t columns = 0, column = 0, id = 0;
  };
  std::vector<Step> steps;
  std::array<std::size_t, 2> done{};  ///< steps of each CTA
};

struct CtaState {
  Memory memory;
  Accesses accesses;
  const Op* relinquished = nullptr;
  Warp* relinquished_by = nullptr;
  std::uint32_t smallest = kColumns;  ///< of the allocations so far
  const Op* smallest_op = nullptr;
};

/// Cluster launch control: where an answer that there is no cluster left was read.
struct LaunchControl {
  const Op* refused = nullptr;
};

struct Unit {
  explicit Unit(std::size_t ctas) : cta(ctas), pipes(ctas), allocators(ctas) {}
  std::vector<CtaState> cta;  ///< by rank
  std::vector<Pipe> pipes;    ///< by rank; of a pair that of the even one
  std::vector<Allocator> allocators;
  LaunchControl control;
  std::set<std::pair<const Op*, const Op*>> reported;
};

/// A tcgen05.ld that no use of its registers and no wait has completed, or a tcgen05.st that none has.
struct Transfer {
  const Op* op = nullptr;
  Fragment fragment;
  std::uint32_t lane = 0, column = 0;
  std::uint32_t window = 0, state = 0;  ///< of the frame
  std::uint32_t number = 0;
  bool done = false;                  ///< the cells were read or written already
  std::vector<std::uint32_t> values;  ///< of a store: register by register
};
struct WarpState {
  std::vector<Transfer> loads, stores;
  std::uint32_t transfers = 0;
  std::array<std::uint32_t, 32> last_epoch{};  ///< of each lane's latest instruction in the pipe
};
WarpState& state_of(Warp& w);

inline Unit& unit_of(const Warp& w) {
  return *w.block->cluster->tensor;
}
inline CtaState& cta_of(const Block& b) {
  return b.cluster->tensor->cta[b.rank];
}
/// The pipe that instructions of `group` CTAs issued in `b` go to.
inline Pipe& pipe_of(const Block& b, int group) {
  return b.cluster->tensor->pipes[group == 2 ? b.rank & ~1u : b.rank];
}
/// CTAs that an instruction of `group` CTAs works on, in the order of rank. Reports a pair that is not there and returns
/// fewer.
std::vector<Block*> ctas_of(Warp& w, const Op& op, int lane, int group);

/// Everything asynchronous of an access to `r` in `cta`: the judgement, if findings are on.
void note(const Block& cta, const Rectangle& r, const Party& party);

// --- pipe ---
/// Puts an instruction into the pipe; runs it at once under the eager policy.
void issue(Warp& w, PipeOp op, int group);
/// Runs what is at the front of a pipe.
void run_front(Cluster& c, Pipe& pipe);
void run_until(Cluster& c, Pipe& pipe, std::uint64_t issued);

// --- transfers ---
/// Completes loads (all of them, or the one that writes the register at `state`) or all stores.
void complete_loads(Warp& w);
void complete_stores(Warp& w);

// --- handlers, by instruction ---
void run_alloc(Warp& w, const Op& op);
void run_dealloc(Warp& w, const Op& op);
void run_relinquish(Warp& w, const Op& op);
void run_load(Warp& w, const Op& op);
void run_store(Warp& w, const Op& op);
void run_wait(Warp& w, const Op& op);
void run_product(Warp& w, const Op& op);
void run_copy(Warp& w, const Op& op);
void run_shift(Warp& w, const Op& op);
void run_commit(Warp& w, const Op& op);

/// An operand in brackets: an address in a register row, with its offset.
struct AddressPart {
  Ref ref = kNoRef;
  std::uint8_t size = 4;
  std::int64_t offset = 0;
};
inline std::uint64_t value_of(const Warp& w, const AddressPart& p, int lane) {
  return w.value(p.ref, p.size, lane) + static_cast<std::uint64_t>(p.offset);
}

/// Op::aux of the instructions.
struct TransferForm {
  Fragment fragment;
  std::optional<Reduction> reduction;  ///< of .red, whose register follows the fragment's
  int registers() const { return fragment.registers() + (reduction ? 1 : 0); }
};
struct ProductForm {
  MmaShape shape;
  AddressPart d, a, scale_a, scale_b, metadata;
  Ref desc_a = kNoRef, desc_b = kNoRef, instruction = kNoRef, predicate = kNoRef, zero_mask = kNoRef;
  bool predicate_negated = false, shift = false;
  std::vector<Ref> disabled;
  int scale_d = 0;
  Collector collector = Collector::discard;
  std::uint32_t buffer = 0;
};
struct CopyForm {
  int group = 1;
  CopyShape shape;
  AddressPart to;
  Ref descriptor = kNoRef;
};
struct ShiftForm {
  int group = 1;
  AddressPart at;
};
struct CommitForm {
  int group = 1;
  bool shared_space = false, multicast = false;
  AddressPart mbarrier;
  Ref mask = kNoRef;
  std::uint8_t mask_size = 2;
};

}  // namespace kiln::emulator::tcgen05
