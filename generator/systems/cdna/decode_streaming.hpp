// DecodeStreamingKVBuffer on CDNA: one strip of K or V in LDS at a time, a single stage.
//
//   K   strip = BN keys x BK columns, XOR-swizzled; depth / BK strips a tile, of the last one up to half. A wave reads
//   its own WN keys.
//   V   strip = BK keys x depth, flat rows (or blocks of BK columns); BN / BK strips a tile. A wave reads its
//   own columns of all keys.
//
// Both go straight to LDS by buffer loads (the flat rows of V too: a copy writes LDS in lane order). Between
// landing and the next copy lie two barriers, or waits where each wave copies the very keys that it reads;
// the products of a strip run from registers while the next one is on its way. FP8 and INT8 under a 16-bit Q
// go through registers instead, where it is widened, and so do pages of fewer rows than a copy brings.
#pragma once

#include <optional>
#include <string>

#include "generator/systems/cdna/kv_buffer.hpp"
#include "generator/systems/decode_streaming_constants.hpp"

namespace kiln::cdna {

class DecodeStreamingKVBuffer {
 public:
  struct Shape {
    bool transpose = true;  ///< K; false: V
    Mfma mfma;
    int BN = 0, WN = 0, BK = 0, num_threads = 0;
    int depth = 0;        ///< of K; for V the output depth, whole shares of the waves
    int row_columns = 0;  ///< columns of a row in memory; 0: depth
    int dma_bytes = 4;
    int page_size = 0;
    LdsSwizzle swizzle{};
    bool blocked = false;     ///< V in blocks of BK x BK instead of flat rows (11.3)
    bool block_form = false;  ///< V is read element by element (KVMmaOp::Shape::block)
    bool reg_staged = false;  ///< strips pass through registers
    bool widens = false;      ///< and are widened there: memory holds bytes, LDS and the products `mfma.type`
    DType stored = DType::fp8_e4m3;  ///< of what is widened
    int scale_columns = 0;           ///< RegStagedCopy::Shape::scale_columns
    bool shared = false;             ///< strips of the other operand come to the same place
  };
  explicit DecodeStreamingKVBuffer(const Shape& shape);

  const DecodeStreamingConstants& derived() const { return constants_; }
  int num_strips() const { return constants_.num_strips; }
  int bytes() const { return buffer_.bytes(); }
  bool staged() const { return buffer_.staged(); }
  int staging_registers() const { return buffer_.staging_registers(); }
  /// Output columns of one wave.
  int wave_columns() const { return shape_.depth / constants_.num_warps_n; }
  void use(Prelude& prelude) const;
  /// Before the tiles of a segment: what waves no longer say to each other in every tile (emit_landed).
  void emit_segment_start(Writer& w) const;
  /// What stands before load_from_shared of strip `strip`: it has landed for every wave that reads of it.
  void emit_landed(Writer& w, int strip) const;
  /// What stands between load_from_shared of strip `strip` and the copy of the next one: whoever read of it
  /// has. After the last strip the next copy is the other operand's, which goes elsewhere unless they share.
  void emit_taken(Writer& w, int strip) const;
  /// As KVBuffer::emit_construct, for keys from `first_row` on.
  void emit_construct(Writer& w, int base, const std::string& first, const std::string& row_bytes,
                      const std::string& rows, const std::string& first_row) const;
  /// load_from_dram[strip]
  void emit_load_from_dram(Writer& w, int strip) const;
  /// load_from_shared: the fragments of strip `strip` that this wave needs.
  void emit_load_from_shared(Writer& w, int strip) const;
  /// C += A B over strip `strip`.
  void emit_mma(Writer& w, const std::string& b, const std::string& c, int strip, bool first) const;

  const KVMmaOp& kv_mma_op() const { return buffer_.kv_mma_op(); }
  nlohmann::ordered_json constants() const;
  std::vector<layout::Proof> proofs() const { return buffer_.proofs(); }

 private:
  const KVMmaOp& op_of(int strip) const;

  Shape shape_;
  DecodeStreamingConstants constants_;
  KVBuffer buffer_;              ///< of one strip
  std::optional<KVMmaOp> last_;  ///< of K's last strip where the row ends within it
};

}  // namespace kiln::cdna
