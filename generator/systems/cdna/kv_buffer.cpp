#include "generator/systems/cdna/kv_buffer.hpp"
#include "generator/emit/terms.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace kiln::cdna {
namespace {

/// gfx90a has no FP8, and gfx942's is FNUZ.
bool unpacks_by_hand(Target target, DType stored) {
  return target == Target::gfx90a || (target == Target::gfx942 && stored == DType::fp8_e4m3);
}

KVBufferConstants constants_of(const KVBuffer::Shape& shape) {
  KVBufferParams params;
  params.dtype = shape.mfma.type;
  params.mma_shape = {shape.mfma.shape.m, shape.mfma.shape.n, shape.mfma.shape.k};
  params.BN = shape.BN;
  params.WN = shape.WN;
  params.BK = shape.BK;
  params.num_threads = shape.num_threads;
  params.depth = shape.depth;
  params.transpose = shape.transpose;
  params.smem_depth =
      shape.reads ? std::max(shape.depth, shape.bk_smem) : align_up(shape.depth, shape.bk_smem);
  params.bk_smem = shape.bk_smem;
  params.full_kv = shape.full_kv;
  (shape.transpose ? params.reg_chunk_depth : params.reg_chunk_keys) = shape.reg_chunk;
  params.num_smem_stages = shape.num_smem_stages;
  params.dma_bytes = shape.dma_bytes;
  params.share_tiles = true;
  return kv_buffer_constants(params);
}

/// What one load brings: everything, or one block of columns at a time.
KVBuffer::Shape one_load(KVBuffer::Shape shape) {
  if (shape.full_kv) return shape;
  shape.strips = ceil_div(shape.depth, shape.bk_smem);
  shape.depth = shape.bk_smem;
  if (shape.transpose) shape.reg_chunk = 0;
  shape.full_kv = true;
  return shape;
}

/// gfx90a and gfx942 have 128 bytes of banks: where the lanes of one phase read V's rows of 64 bytes in two
/// blocks, the second is moved by half.
int block_pad(const KVBuffer::Shape& s) {
  const int row_bytes = s.bk_smem * static_cast<int>(size_of(s.mfma.type));
  const bool one_block = s.depth <= s.bk_smem || (is_fp8(s.mfma.type) && s.mfma.shape.m == 16);
  return (s.transpose && !s.v_in_rows) || s.mfma.target == Target::gfx950 || row_bytes != 64 || one_block
             ? 0
             : 64;
}

LdsTile tile_of(const KVBuffer::Shape& s) {
  return s.reads.value_or(
      LdsTile{s.BN, s.depth, s.bk_smem, static_cast<int>(size_of(s.mfma.type)), s.swizzle, block_pad(s)});
}

}  // namespace

KVBuffer::KVBuffer(const Shape& shape)
    : documented_(constants_of(shape)),
      shape_(one_load(shape)),
      constants_(constants_of(shape_)),
      stage_(tile_of(shape_)),
      op_({shape.mfma, shape.read_columns > 0 ? shape.read_columns / shape.mfma.shape.n : constants_.num_mmas,
           constants_.num_k_mmas2, constants_.reg_num_k_tiles, shape.BK, shape.transpose, shape.keys_in_order,
           shape.block, shape.read_waves, shape.transpose && shape_.depth % shape.BK != 0 ? shape_.depth : 0,
           shape.tensor},
          stage_),
      share_(constants_.waves_per_tile),
      instructions_(constants_.copies_per_wave_tile) {
  if (!shape.reg_staged || shape.reads) return;
  const int row_columns = shape_.row_columns > 0 ? shape_.row_columns : shape_.depth;
  copy_.emplace(RegStagedCopy::Shape{name(), stage_, row_columns, shape_.strips, shape_.last_columns,
                                     shape_.num_threads, shape_.page_size, shape_.mfma.type, shape_.widens,
                                     shape_.stored, unpacks_by_hand(shape_.mfma.target, shape_.stored),
                                     shape_.scale_columns});
}

std::string KVBuffer::title() const {
  return !shape_.tensor.empty() ? shape_.tensor : shape_.transpose ? "K" : "V";
}

void KVBuffer::use(Prelude& prelude) const {
  op_.use(prelude);
  if (shape_.reads) return;
  if (copy_) return copy_->use(prelude);
  prelude.use(shape_.page_size > 0 ? "page_resource" : "buffer_resource");
  prelude.use(shape_.dma_bytes == 16 ? "buffer_to_lds_16" : "buffer_to_lds_4");
  if (shape_.fresh_offsets) prelude.use("per_tile");
}

/// Bits that the swizzled unit index of a lane, with its worker part, can have.
int KVBuffer::lane_unit_bits() const {
  std::uint32_t bits = 0;
  for (int worker = 0; worker < share_; ++worker) {
    for (int lane = 0; lane < 64; ++lane) {
      bits |= stage_.of_units()(static_cast<std::uint32_t>(lane * shape_.dma_bytes / stage_.unit_bytes() +
                                                           worker * instructions_ * units_per_copy()));
    }
  }
  return static_cast<int>(bits);
}

KVBuffer::Copy KVBuffer::copy(int j) const {
  const int swizzled = static_cast<int>(stage_.of_units()(static_cast<std::uint32_t>(j * units_per_copy())));
  const int bits = lane_unit_bits();
  const int high = swizzled & ~bits, per_row = stage_.units_per_row();
  return {swizzled & bits, high / per_row, high % per_row};
}

int KVBuffer::dma_bytes_for(int lds_dma_bytes, int row_bytes, int page_size) {
  for (const int bytes : {lds_dma_bytes, 4}) {
    if (page_size == 0 || page_size * row_bytes % (64 * bytes) == 0) return bytes;
  }
  return 0;
}

bool KVBuffer::own_rows() const {
  if (copy_) return shape_.transpose && copy_->own_rows(shape_.WN);
  return shape_.transpose && !shape_.reads && constants_.num_repeats == 1 &&
         constants_.total_tiles * share_ == constants_.num_warps &&
         constants_.warp_tile_rows == shape_.WN * share_;
}

int KVBuffer::rows_per_descriptor() const {
  return std::gcd(shape_.page_size, instructions_ * units_per_copy() / stage_.units_per_row());
}

bool KVBuffer::own_columns(int columns) const {
  return !shape_.transpose && !copy_ && !shape_.reads && share_ == 1 && columns == shape_.bk_smem &&
         constants_.num_repeats == constants_.num_warps;
}

void KVBuffer::emit_construct(Writer& w, int base, const std::string& first, const std::string& row_bytes,
                              const std::string& rows, const std::string& first_row,
                              const std::string& own_bytes, const std::string& own_col) const {
  if (copy_) {
    copy_->emit_construct(w, base, first, row_bytes, rows, first_row);
    return op_.emit_construct(w, std::to_string(base) + own_bytes, own_col);
  }
  const std::string n = name();
  const int tiles = constants_.total_tiles;
  w.comment("{}: {} of {} x {} a load, {}", title(), tiles == 1 ? "1 tile" : fmt::format("{} tiles", tiles),
            constants_.warp_tile_rows, shape_.bk_smem,
            share_ > 1 ? fmt::format("{} waves on each", share_)
                       : fmt::format("{} to a wave", constants_.tiles_per_warp));
  w.line("const int {0}_row_bytes = (int){1};", n, factor(row_bytes));
  emit_first_row(w, first, rows, first_row);
  emit_lane_offsets(w);
  for (int t = 0; t < constants_.tiles_per_warp; ++t) emit_copy_tile(w, base, t);
  op_.emit_construct(w, std::to_string(base) + own_bytes, own_col);
}

/// Where the next tile's rows begin, and how many are left.
void KVBuffer::emit_first_row(Writer& w, const std::string& first, const std::string& rows,
                              const std::string& first_row) const {
  const std::string n = name();
  if (shape_.page_size > 0) {
    w.line("const u8* const {0}_pages = (const u8*)({1});", n, first);
    w.line("const int {}_keys = {};", n, rows);
    w.line("int {}_row = {};  // first key of the next tile", n, first_row);
  } else {
    const bool whole = first_row == "0";
    w.line("const u8* {0}_next = (const u8*)({1}){2};", n, first,
           whole ? "" : fmt::format(" + {} * (long long){}_row_bytes", first_row, n));
    w.line("int {0}_rows = {1}{2};", n, rows, whole ? "" : " - " + first_row);
  }
}

int KVBuffer::worker_rows() const {
  return instructions_ * units_per_copy() / stage_.units_per_row();
}

/// The unit of a 32-row tile that this lane's first copy takes: the writer's side of the swizzle.
void KVBuffer::emit_lane_offsets(Writer& w) const {
  const std::string n = name();
  const int per_row = stage_.units_per_row();
  const int lanes = stage_.unit_bytes() / shape_.dma_bytes;  // that copy one unit
  std::string unit = lanes == 1 ? "lane" : fmt::format("lane / {}", lanes);
  const int worker_units = instructions_ * units_per_copy();
  if (share_ > 1) unit = fmt::format("{} + warp % {} * {}", unit, share_, worker_units);
  w.line("const u32 {0}_vector = {1};", n, unit);
  std::set<int> lows;
  for (int j = 0; j < instructions_; ++j) lows.insert(copy(j).low);
  for (const int low : lows) {
    std::string v = swizzled_expression(stage_.of_units(), n + "_vector");
    if (low != 0) v = fmt::format("({} ^ {})", v, low);
    std::string row = fmt::format("{} / {}", v, per_row);
    if (shape_.page_size > 0 && share_ > 1)
      row = fmt::format("({} - warp % {} * {})", row, share_,
                        worker_rows());  // a page's descriptor starts there
    w.line("const u32 {0}_from_{1} = {2} * {0}_row_bytes + {3} % {4} * {5}{6};", n, low, row, v, per_row,
           stage_.unit_bytes(), lanes == 1 ? "" : fmt::format(" + lane % {} * {}", lanes, shape_.dma_bytes));
  }
}

/// Copy tile `t` of the wave: where it lies in the tensor and in LDS.
void KVBuffer::emit_copy_tile(Writer& w, int base, int t) const {
  const std::string n = name();
  // A page's descriptor starts at the wave's own first row.
  const std::string own = share_ > 1 ? fmt::format(" + warp % {} * {}", share_, worker_rows()) : "";
  const std::string tile = share_ > 1 ? fmt::format("(warp / {})", share_)
                           : t == 0   ? "warp"
                                      : fmt::format("(warp + {})", t * constants_.num_warps);
  const int repeats = constants_.num_repeats, tile_rows = constants_.warp_tile_rows;
  const std::string row = repeats == 1 ? tile : fmt::format("{} / {}", tile, repeats);
  const std::string col = repeats == 1 ? "0" : fmt::format("{} % {}", tile, repeats);
  if (shape_.page_size > 0) {
    w.line("const int {0}_first_{1} = {2} * {3}{4};", n, t, row, tile_rows, own);
    w.line("const u32 {0}_tile_{1} = {2} * {3};", n, t, col, stage_.row_bytes());
  } else {
    w.line("const u32 {0}_tile_{1} = {2} * {3} * {0}_row_bytes + {4} * {5};", n, t, row, tile_rows, col,
           stage_.row_bytes());
  }
  w.line("const u32 {0}_lds_{1} = {6}{2} * {3} + {4} * {5}{7};", n, t, row, tile_rows * stage_.row_bytes(),
         col, stage_.block_bytes(), base == 0 ? "lds_start + " : fmt::format("lds_start + {} + ", base),
         share_ > 1 ? fmt::format(" + warp % {} * {}", share_, instructions_ * 64 * shape_.dma_bytes) : "");
}

/// Copies [first_copy, last_copy) of copy tile `t`, from the descriptor `tile` that starts at row
/// `first_row`.
void KVBuffer::emit_copies(Writer& w, int stage, int strip, int t, int first_copy, int last_copy,
                           int first_row) const {
  const std::string n = name();
  // One running offset per lane part: a list of uniform row distances would crowd the scalar registers.
  std::map<int, Copy> place_of;  // by lane part: where its offset stands
  for (int j = first_copy; j < last_copy; ++j) {
    const Copy c = copy(j);
    const int lds = stage * stage_bytes() + j * 64 * shape_.dma_bytes;
    const auto [at, fresh] = place_of.try_emplace(c.low, Copy{c.low, first_row, 0});
    if (fresh)
      w.line("u32 from_{0}_{1} = {2}_from_{1} + {2}_tile_{0}{3};", t, c.low, n,
             strip == 0 ? "" : fmt::format(" + {}", strip * shape_.depth * stage_.element_bytes));
    if (fresh && shape_.fresh_offsets)
      w.line("PER_TILE(from_{}_{}, {}_{});", t, c.low, n, shape_.page_size > 0 ? "row" : "rows");
    const Copy& place = at->second;
    if (c.row != place.row) w.line("from_{}_{} += {} * {}_row_bytes;", t, c.low, c.row - place.row, n);
    if (c.unit != place.unit)
      w.line("from_{}_{} += {};", t, c.low, stage_.unit_bytes() * (c.unit - place.unit));
    at->second = c;
    w.line("BUFFER_TO_LDS_{0}(tile, {1}_lds_{2}, {3}, from_{2}_{4});", shape_.dma_bytes, n, t, lds, c.low);
  }
}

void KVBuffer::emit_load_from_dram(Writer& w, int stage, int strip) const {
  if (copy_) return copy_->emit_load(w, strip);
  const std::string n = name();
  const int last = shape_.last_columns > 0 ? shape_.last_columns : shape_.depth;
  const int row = shape_.row_columns > 0 ? shape_.row_columns : (shape_.strips - 1) * shape_.depth + last;
  const int row_end = row * stage_.element_bytes;
  const bool paged = shape_.page_size > 0;
  w.open("");
  w.comment("load_{}_stage{}{}", n, stage, shape_.strips > 1 ? fmt::format(", strip {}", strip) : "");
  if (!paged)
    w.line(
        "const i32x4 tile = buffer_resource({0}_next, {0}_rows > 0 ? (min_of({0}_rows, {1}) - 1) * "
        "{0}_row_bytes + {2} : 0);",
        n, shape_.BN, row_end);
  for (int t = 0; t < constants_.tiles_per_warp; ++t) {
    const bool guarded = (t + 1) * constants_.num_warps > constants_.total_tiles && share_ == 1;
    if (guarded) w.open("if (warp < {})", constants_.total_tiles - t * constants_.num_warps);
    if (!paged) {
      emit_copies(w, stage, strip, t, 0, instructions_, 0);
    } else {
      const int rows = rows_per_descriptor();
      const int copies = rows * stage_.units_per_row() / units_per_copy();
      for (int j = 0; j < instructions_; j += copies) {
        w.open("");
        w.line("const int row = {0}_row + {0}_first_{1}{2};", n, t,
               j == 0 ? "" : fmt::format(" + {}", j / copies * rows));
        w.line("const int page = row < {}_keys ? pages[(u32)row / {}u] : num_pages;", n, shape_.page_size);
        w.comment("rows past the sequence, and pages that do not exist, read as zeros");
        w.line("const int left = (u32)page < (u32)num_pages ? min_of({}_keys - row, {}) : 0;", n, rows);
        w.line(
            "const i32x4 tile = page_resource({0}_pages + page * {1} + (u32)row % {2}u "
            "* (long long){0}_row_bytes, left > 0 ? (left - 1) * {0}_row_bytes + {3} : 0);",
            n, factor(times(n + "_stride_page", stage_.element_bytes)), shape_.page_size, row_end);
        emit_copies(w, stage, strip, t, j, j + copies, j / copies * rows);
        w.close();
      }
    }
    if (guarded) w.close();
  }
  if (strip + 1 < shape_.strips) {
    // The iterator stays at this tile.
  } else if (paged) {
    w.line("{}_row += {};", n, shape_.BN);
  } else {
    w.line("{0}_next += {1} * (long long){0}_row_bytes; {0}_rows -= {1};", n, shape_.BN);
  }
  w.close();
}

void KVBuffer::emit_load_from_shared(Writer& w, int stage, int bk_tile, int step) const {
  op_.emit_load(w, bk_tile, step, stage * stage_bytes());
}

/// Those of the documented parameters, and where the kernel has its own way, that of the kernel: fragments of
/// the columns that one wave reads at a time, loads as they are issued.
int KVBuffer::products() const {
  int sum = 0;
  for (int strip = 0; strip < num_k_tiles(); ++strip) sum += op_.products(strip);
  return sum;
}

nlohmann::ordered_json KVBuffer::constants() const {
  KVBufferConstants c = documented_;
  c.num_mmas = c.rows_per_k_mma = op_.num_mmas();
  c.rows_per_k_tile = c.num_mmas * c.num_k_mmas2;
  c.reg_num_k_tiles = constants_.reg_num_k_tiles;
  c.mma_total_rows = c.rows_per_k_tile * c.reg_num_k_tiles;
  c.vgprs = c.mma_total_rows * shape_.mfma.frag_regs();
  c.smem_stage_bytes = stage_bytes();
  const bool direct = !copy_ && !shape_.reads;
  c.total_tiles = direct ? constants_.total_tiles : 0;
  c.tiles_per_warp = direct ? constants_.tiles_per_warp : 0;
  c.vm_instrs_per_load = copy_ ? copy_->loads() : direct && constants_.uniform_split() ? copies() : 0;
  c.vm_exact = c.vm_instrs_per_load;
  nlohmann::ordered_json json = to_json(c);
  json["dma"] = shape_.reads ? "none" : copy_ ? "reg_staged" : "lds_direct";
  return json;
}

/// Every unit of a 32-row tile is written once, with the unit that readers expect there.
bool KVBuffer::copies_prove() const {
  const int per_row = stage_.units_per_row(), unit = stage_.unit_bytes();
  if (unit % shape_.dma_bytes != 0) return false;
  std::vector<int> written;
  for (int worker = 0; worker < share_; ++worker) {
    for (int j = 0; j < instructions_; ++j) {
      for (int lane = 0; lane < 64; ++lane) {
        const int place = (worker * instructions_ + j) * 64 * shape_.dma_bytes + lane * shape_.dma_bytes;
        const auto own = static_cast<std::uint32_t>(lane * shape_.dma_bytes / unit +
                                                    worker * instructions_ * units_per_copy());
        const Copy c = copy(j);
        const int source = static_cast<int>(stage_.of_units()(own)) ^ c.low;
        const int row = source / per_row + c.row;
        const int byte = (source % per_row + c.unit) * unit + lane * shape_.dma_bytes % unit;
        const int expected = static_cast<int>(stage_.byte(row, byte / unit * stage_.unit())) + byte % unit;
        if (expected != place) return false;
        written.push_back(place / shape_.dma_bytes);
      }
    }
  }
  std::sort(written.begin(), written.end());
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] != static_cast<int>(i)) return false;
  }
  return true;
}

std::vector<layout::Proof> KVBuffer::proofs() const {
  const std::string n = title();
  std::vector<layout::Proof> out;
  if (!shape_.reads) {
    out.push_back({n + " stage: bijection", stage_.layout().is_bijection(), 0});
    out.push_back(copy_ ? copy_->proof()
                        : layout::Proof{n + " copies: buffer_load to LDS", copies_prove(), 0});
  }
  for (auto& proof : op_.proofs(shape_.mfma.target)) out.push_back(std::move(proof));
  return out;
}

}  // namespace kiln::cdna
