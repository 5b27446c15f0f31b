// Rules of LDS and KVBuffer: V4 V6 V7 V12 V14 V15 V21. V5 cannot be broken: 4-byte copies take any row of
// whole words, and bk_smem is a multiple of 8 elements.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "generator/config/defaults.hpp"
#include "generator/config/rope.hpp"
#include "generator/config/rules/amd_tiles.hpp"
#include "generator/config/rules/rule_sets.hpp"
#include "generator/targets/target.hpp"

namespace kiln::rules {

std::optional<KVBufferConstants> buffer_constants(const Config& c, bool transpose) {
  const bool known = c.mma_shape && c.BN && c.WN && c.BK && c.num_threads;
  if (!known || *c.BN <= 0 || *c.WN <= 0 || *c.BK <= 0 || *c.num_threads < 64) return std::nullopt;
  KVBufferParams p;
  p.dtype = staged_dtype(c);
  p.mma_shape = *c.mma_shape;
  p.BN = *c.BN;
  p.WN = *c.WN;
  p.BK = *c.BK;
  p.num_threads = *c.num_threads;
  p.depth = transpose ? c.depth : c.ov_depth.value_or(c.depth);
  p.transpose = transpose;
  p.full_kv = c.full_kv.value_or(true);
  p.reg_chunk_depth = c.reg_chunk_depth.value_or(0);
  p.reg_chunk_keys = c.reg_chunk_keys.value_or(0);
  p.bk_smem = c.bk_smem.value_or(*c.BK);
  p.smem_depth = transpose ? c.smem_depth.value_or(0) : align_up(p.depth, p.bk_smem);
  p.num_smem_stages = c.num_smem_stages.value_or(2);
  p.dma_bytes = c.dma == "lds_direct" ? std::max(4, target_info(c.target).lds_dma_bytes) : 16;
  p.share_tiles = true;
  return kv_buffer_constants(p);
}

std::optional<KVBufferConstants> value_registers(const Config& c) {
  if (!c.BN || !c.WN || *c.WN <= 0) return std::nullopt;
  Config reader = c;
  reader.ov_depth = ceil_div(c.ov_depth.value_or(c.depth), std::max(1, *c.BN / *c.WN));
  // Of more than 256 columns the fragments are read in parts, one after the other.
  if (*reader.ov_depth > 256 && *reader.ov_depth % 128 == 0) reader.ov_depth = 128;
  reader.WN = *c.BN;
  return buffer_constants(reader, false);
}

std::optional<LdsBytes> amd_lds(const Config& c) {
  if (!c.BM || !c.BN || !c.WN || !c.bk_smem || !c.ov_depth || *c.WN <= 0 || *c.bk_smem <= 0)
    return std::nullopt;
  LdsRequest r;
  r.dtype = staged_dtype(c);
  r.depth = c.smem_depth.value_or(c.depth);
  r.ov_depth = *c.ov_depth;
  r.BM = *c.BM;
  r.BN = *c.BN;
  r.bk_smem = *c.bk_smem;
  r.num_warps_n = std::max(1, *c.BN / *c.WN);
  r.double_buffer = c.double_buffer.value_or(false);
  r.double_buffer_k_only = c.double_buffer_k_only.value_or(false);
  r.shared_kv = c.shared_kv.value_or(false) || c.v_from_k.value_or(false);
  r.full_kv = c.full_kv.value_or(true);
  LdsBytes bytes = lds_bytes(r);
  if (c.BK && c.operation == Operation::decode && streams_decode(c)) {
    // One strip of each (3.3).
    const int whole = r.shared_kv ? std::max(bytes.k, bytes.v) : bytes.k + bytes.v;
    const int size = static_cast<int>(size_of(r.dtype));
    bytes.k = r.BN * *c.BK * size, bytes.v = *c.BK * r.ov_depth * size;
    bytes.total += bytes.k + bytes.v - whole;
  }
  return bytes;
}

namespace {

std::string v4(const Config& c) {
  if (!c.bk_smem || c.dma != "lds_direct") return "";
  const int bytes = *c.bk_smem * static_cast<int>(size_of(staged_dtype(c)));
  if (bytes == 64 || bytes == 128) return "";
  return fmt::format("dma lds_direct copies rows of 64 or 128 bytes; bk_smem ({}) makes {}", *c.bk_smem,
                     bytes);
}

std::string v6_width(const Config& c) {
  if (!c.bk_smem || !c.BK || *c.bk_smem == *c.BK || 2 * *c.bk_smem == *c.BK) return "";
  return fmt::format("bk_smem ({}) must be BK ({}) or half of it", *c.bk_smem, *c.BK);
}
std::string v6_half(const Config& c) {
  if (!c.bk_smem || !c.BK || !c.mma_shape || 2 * *c.bk_smem != *c.BK) return "";
  if (size_of(staged_dtype(c)) == 1 && (*c.mma_shape)[2] == 128) return "";
  return fmt::format("bk_smem ({}) of half BK ({}) exists for FP8 with MMA_K 128 only", *c.bk_smem, *c.BK);
}

std::string v7_blocks(const Config& c) {
  if (!c.smem_depth || !c.bk_smem || *c.bk_smem <= 0 || *c.smem_depth % *c.bk_smem == 0) return "";
  return fmt::format("smem_depth ({}) must be a multiple of bk_smem ({})", *c.smem_depth, *c.bk_smem);
}
std::string v7_depth(const Config& c) {
  if (!c.smem_depth || *c.smem_depth >= c.depth) return "";
  return fmt::format("smem_depth ({}) must be at least depth ({})", *c.smem_depth, c.depth);
}

std::string v12_columns(const Config& c) {
  if (!c.v_from_k.value_or(false) || c.ov_depth.value_or(c.depth) <= c.depth) return "";
  return fmt::format("v_from_k takes V from the first ov_depth ({}) columns of K, which has {}", *c.ov_depth,
                     c.depth);
}
std::string v12_swizzle(const Config& c) {
  if (!c.v_from_k.value_or(false) || !c.swizzle_k || !c.swizzle_v) return "";
  const XorSwizzle k = xor_swizzle(*c.swizzle_k), v = xor_swizzle(*c.swizzle_v);
  const bool same =
      k.bits == v.bits &&
      (k.bits == 0 || (k.base == v.base && k.shift == v.shift && k.element_domain == v.element_domain));
  return same ? "" : "v_from_k reads V where K was written: swizzle_v must equal swizzle_k";
}
std::string v12_shared(const Config& c) {
  const bool unshared = c.v_from_k.value_or(false) && c.shared_kv == false;
  return unshared ? "v_from_k keeps V in K's memory: shared_kv must be true" : "";
}
std::string v12_slice(const Config& c) {
  if (!c.v_from_k.value_or(false) || !c.BN || !c.WN || !c.bk_smem || *c.WN <= 0 || *c.bk_smem <= 0) return "";
  const int warps = std::max(1, *c.BN / *c.WN), slice = c.ov_depth.value_or(c.depth) / warps;
  if (warps == 1 || slice % *c.bk_smem == 0) return "";
  return fmt::format(
      "v_from_k gives each warp ov_depth/(BN/WN) = {} columns of V, which must be a multiple of bk_smem ({})",
      slice, *c.bk_smem);
}

std::string two_stages(const Config& c) {
  const bool both = c.double_buffer.value_or(false) && c.double_buffer_k_only.value_or(false);
  return both ? "double_buffer has two stages of K and of V, double_buffer_k_only of K alone: one of them"
              : "";
}
std::string two_stages_of_k(const Config& c) {
  if (!c.v_from_k.value_or(false) || !c.double_buffer_k_only.value_or(false)) return "";
  return "v_from_k keeps V in K's stages: double_buffer says whether there are two";
}

/// The buffers of a tile: that of K, of its rotary columns where they have a tensor of their own, of V unless it
/// lies in K's. Empty where the tiles are not known.
std::vector<KVBufferConstants> tile_buffers(const Config& c) {
  std::vector<int> columns{c.depth};
  if (has_rope_tensor(c) && c.rope_depth) columns = {k_columns(c), *c.rope_depth};
  std::vector<KVBufferConstants> out;
  for (const int depth : columns) {
    Config part = c;
    if (columns.size() > 1) part.depth = depth, part.smem_depth.reset();
    const auto k = buffer_constants(part, true);
    if (!k) return {};
    out.push_back(*k);
  }
  if (c.v_from_k.value_or(false)) return out;
  const auto v = buffer_constants(c, false);
  if (!v) return {};
  out.push_back(*v);
  return out;
}

std::string v14(const Config& c) {
  if (c.wait_policy != "counted" || c.dma == "reg_staged") return "";  // there the compiler counts
  int sum = 0;
  for (const KVBufferConstants& buffer : tile_buffers(c)) {
    if (!buffer.uniform_split()) {
      return fmt::format("counted waits need the {} copy tiles of a stage to divide among {} warps",
                         buffer.total_tiles, buffer.num_warps);
    }
    sum += buffer.vm_exact;
  }
  return sum <= 63 ? "" : fmt::format("counted waits reach 63 loads, this needs {}", sum);
}

std::string v15_amd(const Config& c) {
  const auto bytes = amd_lds(c);
  const int limit = target_info(c.target).smem_bytes;
  if (!bytes || bytes->total <= limit) return "";
  return fmt::format("LDS of {} bytes (K {}, V {}, scratch {}, P {}) exceeds the {} of {}", bytes->total,
                     bytes->k, bytes->v, bytes->scratch, bytes->p, limit, to_string(c.target));
}

std::string v21_depth(const Config& c) {
  if (!c.reg_chunk_depth || !c.BK || *c.BK <= 0) return "";
  if (*c.reg_chunk_depth % *c.BK == 0 && *c.reg_chunk_depth <= align_up(c.depth, *c.BK)) return "";
  return fmt::format("reg_chunk_depth ({}) must be whole strips: a multiple of BK ({}) up to depth ({})",
                     *c.reg_chunk_depth, *c.BK, c.depth);
}
std::string v21_keys(const Config& c) {
  if (!c.reg_chunk_keys || !c.BK || !c.WN || *c.BK <= 0) return "";
  if (*c.reg_chunk_keys % *c.BK == 0 && *c.reg_chunk_keys <= align_up(*c.WN, *c.BK)) return "";
  return fmt::format("reg_chunk_keys ({}) must be whole strips: a multiple of BK ({}) up to WN ({})",
                     *c.reg_chunk_keys, *c.BK, *c.WN);
}

}  // namespace

std::vector<Rule> memory_rules() {
  return {
      {"V4", "9.2 V4, 1.3", only(Target::gfx950), {"/bk_smem", "/dma", "/dtype"}, v4},
      {"V6", "9.2 V6", kBuffered, {"/bk_smem", "/BK"}, v6_width},
      {"V6", "9.2 V6", kBuffered, {"/bk_smem", "/BK", "/kv_dtype", "/mma_shape"}, v6_half},
      {"V7", "9.2 V7", kBuffered, {"/smem_depth", "/bk_smem"}, v7_blocks},
      {"V7", "9.2 V7", kBuffered, {"/smem_depth", "/depth"}, v7_depth},
      {"V12", "contract: v_from_k", kAllTargets, {"/v_from_k", "/ov_depth", "/depth"}, v12_columns},
      {"V12", "9.2 V12", kBuffered, {"/v_from_k", "/swizzle_k", "/swizzle_v"}, v12_swizzle},
      {"V12", "9.2 V12", kAmd, {"/v_from_k", "/shared_kv"}, v12_shared},
      {"V12", "9.2 V12, 2.7", kAmd, {"/v_from_k", "/ov_depth", "/BN", "/WN", "/bk_smem"}, v12_slice},
      {"schema", "2.4", kAmd, {"/double_buffer_k_only", "/double_buffer"}, two_stages},
      {"schema", "2.7", kAmd, {"/double_buffer_k_only", "/v_from_k"}, two_stages_of_k},
      {"V14",
       "9.2 V14, 8.13",
       kAmd,
       {"/wait_policy", "/BN", "/num_threads", "/bk_smem", "/smem_depth", "/ov_depth"},
       v14},
      {"V15",
       "9.2 V15, 2.4",
       kAmd,
       {"/depth", "/ov_depth", "/dtype", "/kv_dtype", "/BM", "/BN", "/bk_smem", "/smem_depth", "/full_kv",
        "/double_buffer", "/double_buffer_k_only", "/shared_kv"},
       v15_amd},
      {"V21", "9.2 V21, 2.2", kBuffered, {"/reg_chunk_depth", "/BK", "/depth"}, v21_depth},
      {"V21", "9.2 V21, 2.2", kBuffered, {"/reg_chunk_keys", "/BK", "/WN"}, v21_keys},
  };
}

}  // namespace kiln::rules
