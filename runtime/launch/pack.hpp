// Kernel parameters: packed once for the shapes of a launch, with the places where addresses go; a launch
// copies them and fills these in.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "runtime/device/device.hpp"
#include "runtime/launch/launch_key.hpp"
#include "runtime/launch/problem.hpp"

namespace kiln {

/// Memory that the runtime keeps for launches of one stream; 0 where no parameter asks.
struct ScratchAddresses {
  std::uint64_t tile_counter = 0, item_counters = 0, workspace = 0;
};

/// Parameters of one launch in place, on the stack.
struct LaunchParams {
  static constexpr std::size_t kMaxParams = 64, kMaxBytes = 4096;  // the driver's limit on parameter bytes
  alignas(64) std::array<std::byte, kMaxBytes> bytes;
  std::array<void*, kMaxParams> addresses;
};

/// Bytes of all parameters of a launch, each at its own alignment, addresses left open.
class PackedParams {
 public:
  template <class T>
  void add(const T& value) {
    add_bytes(&value, sizeof value, alignof(T));
  }
  /// Throws Error (internal) when the manifest asks for more than a launch can carry.
  void add_bytes(const void* data, std::size_t size, std::size_t align);
  void add_pointer(Operand operand);
  /// Bytes that hold addresses of `operands`, each at its offset.
  void add_struct(const std::vector<std::byte>& bytes,
                  const std::vector<std::pair<std::size_t, Operand>>& operands);
  void add_scratch(std::uint64_t ScratchAddresses::*member);
  /// A tensor map whose address is that of `operand` and `shift` bytes more.
  void add_map(Operand operand, std::uint64_t shift, const TensorMapRequest& request);

  /// The parameters of a launch at `addresses`. Tensor maps are encoded where the address is not one of the
  /// last few: not for several threads at once.
  ParamView fill(const std::array<std::uint64_t, kOperands>& addresses, const ScratchAddresses& scratch,
                 Device& device, LaunchParams& out);

 private:
  struct Pointer {
    std::size_t offset;
    Operand operand;
  };
  struct ScratchPointer {
    std::size_t offset;
    std::uint64_t ScratchAddresses::*member;
  };
  struct Encoded {
    std::uint64_t address = 0;
    bool valid = false;
    TensorMapBytes bytes{};
  };
  struct Map {
    std::size_t offset;
    Operand operand;
    std::uint64_t shift;
    TensorMapRequest request;
    std::array<Encoded, 4> recent{};
    std::size_t next = 0;
  };
  std::size_t last_offset() const { return offsets_.back(); }
  const TensorMapBytes& encoded(Map& map, std::uint64_t address, Device& device);

  std::vector<std::byte> bytes_;
  std::vector<std::size_t> offsets_;
  std::vector<std::uint32_t> sizes_;
  std::vector<Pointer> pointers_;
  std::vector<ScratchPointer> scratch_;
  std::vector<Map> maps_;
};

/// Checks that every role of the manifest is known; Error (bad_input) names the first that is not.
void check_roles(const Manifest& manifest);

/// Fills `out` by the manifest's roles.
void pack_params(const Manifest& manifest, const AttentionArgs& args, const Problem& problem,
                 PackedParams& out);

}  // namespace kiln
