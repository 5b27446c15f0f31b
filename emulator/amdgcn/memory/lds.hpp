// The LDS of one workgroup: its bytes, and for each who wrote and read it last, so that accesses which no
// barrier orders are found. Internal.
//
// Time is counted in epochs: the number of barriers a wave has passed. An access that a wait covers before
// the next barrier belongs to one epoch; one that is still under way is stamped anew in each epoch it lasts
// (Wave does that at barriers). Two accesses of different waves to one byte, one of them a write, race
// exactly if some epoch has both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln::emulator::amdgcn {

struct Inst;

class Lds {
 public:
  explicit Lds(std::size_t bytes, bool track) : data_(bytes), shadow_(track ? (bytes + 3) / 4 : 0) {}

  enum class Access : std::uint8_t { read, write, atomic };
  enum class Trouble : std::uint8_t { none, race, dma_unwaited, uninitialized };
  struct Conflict {
    Trouble trouble = Trouble::none;
    const Inst* other = nullptr;
    int other_wave = -1;
    std::uint32_t byte = 0;
  };

  std::size_t size() const { return data_.size(); }
  std::byte* data() { return data_.data(); }
  bool contains(std::uint64_t offset, std::size_t bytes) const { return offset + bytes <= data_.size(); }

  /// Records an access and returns the first conflict with those of other waves (or with a DMA of the own
  /// wave that is still under way, those after `dma_retired`). `dma` is the sequence number of the DMA that
  /// writes, or 0. `values`: the bytes of a write, null where they are not known yet. Waves that write equal
  /// bytes disturb nobody, and each may read them.
  Conflict touch(std::uint32_t offset, std::size_t bytes, Access access, int wave, std::uint32_t epoch,
                 const Inst* inst, std::uint64_t dma, std::uint64_t dma_retired, const std::byte* values);
  /// What is known of the bytes: never written, written with a value that is undefined, or defined.
  enum class State : std::uint8_t { never_written, undefined, defined };
  State state(std::uint32_t offset, std::size_t bytes);
  void mark(std::uint32_t offset, std::size_t bytes, bool defined);

 private:
  /// What is noted of one byte, or of the four of a dword that were always accessed together.
  struct Cell {
    const Inst* writer = nullptr;
    const Inst* reader = nullptr;
    std::uint64_t dma = 0, same_dma = 0;  ///< of the writer, of the latest that wrote the same
    std::uint32_t write_epoch = 0, read_epoch = 0;
    std::uint16_t read_mask = 0;  ///< waves that read in read_epoch
    std::uint16_t same_mask = 0;  ///< further waves that wrote `value`, in same_epoch
    std::uint32_t same_epoch = 0;
    std::uint32_t value = 0;
    std::int8_t write_wave = -1, same_dma_wave = -1;
    bool atomic : 1 = false, defined : 1 = false, value_known : 1 = false;
    bool split : 1 = false;  ///< of a dword: each byte has a cell of its own
    void note_same(int wave, std::uint32_t epoch, std::uint64_t dma_sequence);
    /// Whether a DMA of `wave` after its `retired` ones writes this.
    bool under_way(int wave, std::uint64_t retired) const;
  };
  struct Toucher;
  static void write_same(Toucher& t, Cell& b);
  static void check_writers(Toucher& t, const Cell& b, std::uint32_t at);
  static void note_read(const Toucher& t, Cell& b);
  static void note_write(Toucher& t, Cell& b, std::uint32_t at, bool value_known, std::uint32_t value);
  /// Calls f(cell, first byte, bytes) for the cells of a range.
  template <class F>
  void each_cell(std::uint32_t offset, std::size_t bytes, F f);
  Cell* split(std::uint32_t dword);
  std::vector<std::byte> data_;
  std::vector<Cell> shadow_;                ///< by dword
  std::vector<std::array<Cell, 4>> bytes_;  ///< of split dwords; empty: there are none
};

}  // namespace kiln::emulator::amdgcn
