// From options to a workload: numbers, per-request lengths, a trace, or real tensors.
#include "cli/execute/problem_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/grid.hpp"
#include "generator/modifiers/captured.hpp"
#include "generator/operands/operand_form.hpp"
#include "workbench/files/npy.hpp"
#include "workbench/files/trace.hpp"
#include "workbench/problem/heads.hpp"
#include "workbench/problem/rounding.hpp"

namespace kiln::cli {
namespace {

// Small enough for the emulated device, large enough for several tiles of every shipped config.
constexpr std::int64_t kDefaultBatch = 1, kDefaultHeads = 2, kDefaultLength = 256;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::bad_input, what);
}

std::int64_t nonnegative(std::int64_t value, const char* name) {
  if (value < 0) fail(fmt::format("{} must be 0 or more, not {}", name, value));
  return value;
}

std::vector<std::int64_t> repeat(std::int64_t value, std::int64_t times) {
  if (times < 1 || times > kMostOfGridAxis)
    fail(fmt::format("--batch must be 1 to {}, not {}", kMostOfGridAxis, times));
  return std::vector<std::int64_t>(static_cast<std::size_t>(times), value);
}

struct FileTensor {
  std::string path;
  NpyArray array;
  std::int64_t dim(std::size_t from_the_end) const { return array.shape[array.shape.size() - from_the_end]; }
};

FileTensor checked(FileTensor tensor, bool ragged, std::int64_t depth) {
  const std::size_t rank = ragged ? 3 : 4;
  const char* form = ragged ? "[total, heads, depth]" : "[batch, seqlen, heads, depth]";
  if (tensor.array.shape.size() != rank) {
    fail(fmt::format("{}: shape {} is not {}", tensor.path, shape_text(tensor.array.shape), form));
  }
  if (tensor.dim(1) != depth)
    fail(fmt::format("{}: depth is {}, the config wants {}", tensor.path, tensor.dim(1), depth));
  return tensor;
}

FileTensor load_tensor(const std::string& path, bool ragged, std::int64_t depth) {
  return checked({path, read_npy(path)}, ragged, depth);
}

/// The columns that a kernel reads of rows of K or V.
std::vector<float> columns_read(const FileTensor& tensor, std::int64_t columns, std::int64_t offset) {
  std::vector<float> rows = to_floats(tensor.array);
  const std::int64_t row = tensor.dim(1);
  if (row == columns) return rows;
  std::vector<float> out;
  for (auto first = rows.begin(); first != rows.end(); first += row)
    out.insert(out.end(), first + offset, first + offset + columns);
  return out;
}

void require_equal(std::int64_t got, std::optional<std::int64_t> wanted, const std::string& path,
                   const char* option) {
  if (wanted && *wanted != got)
    fail(fmt::format("{}: holds {} for {}, the command line says {}", path, got, option, *wanted));
}

/// A number, or the numbers of a .npy file.
std::vector<float> read_scale(const std::string& text, const char* option) {
  std::vector<float> values(1);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), values[0]);
  const bool whole = parsed.ptr == text.data() + text.size();
  if (whole && parsed.ec == std::errc::result_out_of_range)
    fail(fmt::format("{}: '{}' is not a number that fits a float", option, text));
  if (parsed.ec != std::errc() || !whole) values = to_floats(read_npy(text));
  for (const float value : values) {
    if (!std::isfinite(value)) fail(fmt::format("{}: a scale is not a finite number", option));
  }
  return values;
}

// Booleans [batch | 1, heads | 1, rows, keys] as words.
MaskBits read_mask(const std::string& path, const ProblemShape& shape) {
  const NpyArray array = read_npy(path);
  const auto longest = [](const std::vector<std::int64_t>& lengths) {
    return *std::max_element(lengths.begin(), lengths.end());
  };
  const std::int64_t rows = longest(shape.lengths_q), keys = longest(shape.lengths_k);
  const auto fits = [](std::int64_t extent, std::int64_t wanted) { return extent == 1 || extent == wanted; };
  if (array.shape.size() != 4 || !fits(array.shape[0], shape.batch()) ||
      !fits(array.shape[1], shape.heads_q) || array.shape[2] != rows || array.shape[3] != keys) {
    fail(fmt::format("{}: shape {} is not [{} or 1, {} or 1, {}, {}]", path, shape_text(array.shape),
                     shape.batch(), shape.heads_q, rows, keys));
  }
  MaskBits mask{array.shape[0], array.shape[1], rows, keys / 32 + 1, {}};
  mask.bits.resize(static_cast<std::size_t>(mask.batch * mask.heads * rows * mask.words));
  const std::vector<float> values = to_floats(array);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(keys), key = i % static_cast<std::size_t>(keys);
    if (values[i] != 0) mask.bits[row * static_cast<std::size_t>(mask.words) + key / 32] |= 1u << (key % 32);
  }
  return mask;
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t total = 0;
  for (const std::int64_t value : values) total += value;
  return total;
}

}  // namespace

std::vector<std::int64_t> parse_lengths(const std::string& text, const std::string& option) {
  std::vector<std::int64_t> lengths;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, end - at);
    std::int64_t value = 0;
    const auto parsed = std::from_chars(item.data(), item.data() + item.size(), value);
    if (item.empty() || parsed.ec != std::errc() || parsed.ptr != item.data() + item.size() || value < 0 ||
        value > 0x7fffffff) {
      fail(fmt::format("{}: '{}' is not a length", option, item));
    }
    lengths.push_back(value);
    at = end + 1;
  }
  return lengths;
}

std::optional<EmulatorOptions::Policy> policy_from(const std::string& text) {
  if (text == "eager") return EmulatorOptions::Policy::eager;
  if (text == "lazy") return EmulatorOptions::Policy::lazy;
  if (text == "random") return EmulatorOptions::Policy::random;
  return std::nullopt;
}

void ProblemOptions::declare(CLI::App& command, bool tensors) {
  command.add_option("--batch", batch, "Requests of equal length (default 1)");
  command.add_option("--heads-q", heads_q, "Query heads (default: as many as KV heads, or 2)");
  command.add_option("--heads-kv", heads_kv, "KV heads (default: as many as query heads)");
  command.add_option("--seqlen-q", seqlen_q, "Query rows of a request (default 256; decode 1)");
  command.add_option("--seqlen-k", seqlen_k,
                     "Keys of a request (default: as many as query rows; decode 256)");
  command.add_option("--lengths-q", lengths_q, "Query rows of each request: a,b,...");
  command.add_option("--lengths-k", lengths_k, "Keys of each request: a,b,...");
  command.add_option("--trace", trace,
                     "Lengths of a serving trace: CSV with ContextTokens or JSON lines with input_length");
  command.add_option("--requests", requests, "Requests to take of the trace (default 8)");
  command.add_option("--max-length", max_length, "Cut lengths of the trace to this");
  command.add_option("--seed", seed, "Seed of random tensors and of everything else random");
  if (!tensors) return;
  command.add_option(
      "--q", q,
      "Q as .npy: [batch, seqlen, heads, depth], or [total, heads, depth] with lengths or a ragged config");
  command.add_option("--k", k, "K as .npy");
  command.add_option("--v", v, "V as .npy");
  command.add_option("--page-table", page_table,
                     "Page of each page_size keys as int32 .npy [batch, max_pages] (default: random pages)");
  command.add_option("--q-scale", q_scale, "Scale of Q's stored values: a number or .npy");
  command.add_option("--k-scale", k_scale,
                     "Scales of K's stored values: a number, or .npy with one for each group "
                     "(default: of random tensors by their largest values, of files 1)");
  command.add_option("--v-scale", v_scale, "Scales of V's stored values");
  command.add_option("--sink", sink, "Attention sink as .npy: [heads_q] (default: random)");
  command.add_option(
      "--mask-bits", mask_bits,
      "Custom mask as .npy: booleans [batch or 1, heads_q or 1, seqlen_q, seqlen_k], true where visible "
      "(default: random)");
  command.add_option("--captured", captured,
                     "NAME=FILE.npy: a tensor of the score expression (default: random); once for each");
}

void ProblemOptions::refuse_conflicts() const {
  const bool lengths = !lengths_q.empty() || !lengths_k.empty();
  if (lengths && !trace.empty()) fail("--trace and --lengths-q/--lengths-k exclude each other");
  if ((lengths || !trace.empty()) && batch)
    fail("--batch does not go with per-request lengths: their number is the batch");
  if ((!lengths_q.empty() || !trace.empty()) && seqlen_q)
    fail("--seqlen-q does not go with per-request lengths");
  if ((!lengths_k.empty() || !trace.empty()) && seqlen_k)
    fail("--seqlen-k does not go with per-request lengths");
  if (trace.empty() && requests) fail("--requests needs --trace");
  if (trace.empty() && max_length) fail("--max-length needs --trace");
  if (requests && *requests < 1) fail("--requests must be 1 or more");
  if (max_length && *max_length < 1) fail("--max-length must be 1 or more");
}

ProblemShape ProblemOptions::shape_from_options(const Config& resolved) const {
  const bool decode = resolved.operation == Operation::decode;
  ProblemShape shape;
  const HeadCounts heads = head_counts(resolved, heads_q, heads_kv, {kDefaultHeads, kDefaultHeads});
  shape.heads_q = heads.q;
  shape.heads_kv = heads.kv;
  shape.depth = resolved.depth;
  shape.ov_depth = resolved.ov_depth.value_or(resolved.depth);
  const OperandKind kind = resolved.operand.value_or(OperandConfig{}).kind;
  shape.ragged = operand_form(kind).ragged_k() || !trace.empty() || !lengths_q.empty() || !lengths_k.empty();

  if (!trace.empty()) {
    shape.lengths_k =
        read_trace(trace, static_cast<std::size_t>(requests.value_or(8)), max_length.value_or(0));
    shape.lengths_q = decode ? repeat(1, static_cast<std::int64_t>(shape.lengths_k.size())) : shape.lengths_k;
    return shape;
  }
  if (!lengths_q.empty()) shape.lengths_q = parse_lengths(lengths_q, "--lengths-q");
  if (!lengths_k.empty()) shape.lengths_k = parse_lengths(lengths_k, "--lengths-k");
  const auto size = static_cast<std::int64_t>(std::max(shape.lengths_q.size(), shape.lengths_k.size()));
  const std::int64_t count = size > 0 ? size : batch.value_or(kDefaultBatch);
  if (shape.lengths_q.empty()) {
    // Prefill without q lengths: every key has its query.
    shape.lengths_q =
        !lengths_k.empty() && !seqlen_q && !decode
            ? shape.lengths_k
            : repeat(nonnegative(seqlen_q.value_or(decode ? 1 : kDefaultLength), "--seqlen-q"), count);
  }
  if (shape.lengths_k.empty()) {
    shape.lengths_k = seqlen_k ? repeat(nonnegative(*seqlen_k, "--seqlen-k"), count)
                      : decode ? repeat(kDefaultLength, count)
                               : shape.lengths_q;
  }
  return shape;
}

Workload ProblemOptions::workload_from_files(const Config& resolved) const {
  const bool from_k = resolved.v_from_k.value_or(false);
  if (q.empty() || k.empty() || (v.empty() && !from_k)) fail("--q, --k and --v are given together");
  ProblemShape shape = shape_from_options(resolved);
  // K and V have their rows as they lie in a cache; what is not read of them does not matter.
  const std::int64_t first = resolved.head_dim_offset.value_or(0);
  // Where rotary columns lie apart the columns that are read are all that the file has.
  const std::int64_t around =
      resolved.rope ? 0 : resolved.cache_depth.value_or(first + resolved.depth) - resolved.depth;
  const bool lengths = !lengths_q.empty() || !lengths_k.empty() || !trace.empty();
  FileTensor loaded_q{q, read_npy(q)};
  // A ragged kernel takes requests of equal length as well.
  if (!lengths && loaded_q.array.shape.size() == 4) shape.ragged = false;
  const FileTensor tq = checked(std::move(loaded_q), shape.ragged, shape.depth),
                   tk = load_tensor(k, shape.ragged, shape.depth + around);
  require_equal(tq.dim(2), heads_q, q, "--heads-q");
  require_equal(tk.dim(2), heads_kv, k, "--heads-kv");
  shape.heads_q = tq.dim(2);
  shape.heads_kv = tk.dim(2);
  if (shape.ragged) {
    // Without lengths a ragged file is one request.
    if (!lengths) {
      shape.lengths_q = {tq.dim(3)};
      shape.lengths_k = {tk.dim(3)};
    }
    if (sum(shape.lengths_q) != tq.dim(3))
      fail(fmt::format("{}: holds {} rows, the q lengths sum to {}", q, tq.dim(3), sum(shape.lengths_q)));
    if (sum(shape.lengths_k) != tk.dim(3))
      fail(fmt::format("{}: holds {} rows, the k lengths sum to {}", k, tk.dim(3), sum(shape.lengths_k)));
  } else {
    if (tq.dim(4) != tk.dim(4)) fail(fmt::format("{}: batch is {}, {} has {}", k, tk.dim(4), q, tq.dim(4)));
    require_equal(tq.dim(4), batch, q, "--batch");
    require_equal(tq.dim(3), seqlen_q, q, "--seqlen-q");
    require_equal(tk.dim(3), seqlen_k, k, "--seqlen-k");
    shape.lengths_q = repeat(tq.dim(3), tq.dim(4));
    shape.lengths_k = repeat(tk.dim(3), tk.dim(4));
  }
  check_shape(shape);

  const DType kv_dtype = resolved.kv_dtype.value_or(resolved.dtype);
  Workload work;
  work.shape = shape;
  work.q = to_floats(tq.array);
  work.k = columns_read(tk, shape.depth, first);
  work.v_from_k = from_k;
  work.seed = seed;
  round_to(resolved.dtype, work.q);
  store_keys(resolved, false, work);
  if (!from_k) {
    const FileTensor tv = load_tensor(v, shape.ragged, shape.ov_depth + around);
    std::vector<std::int64_t> wanted = tk.array.shape;
    wanted.back() = shape.ov_depth + around;
    if (tv.array.shape != wanted)
      fail(fmt::format("{}: shape {} does not go with K, {} would", v, shape_text(tv.array.shape),
                       shape_text(wanted)));
    work.v = columns_read(tv, shape.ov_depth, first);
    round_to(kv_dtype, work.v);
  }
  return work;
}

void ProblemOptions::apply_scales(const Config& resolved, Workload& work) const {
  if (!q_scale.empty()) {
    const std::vector<float> values = read_scale(q_scale, "--q-scale");
    if (values.size() != 1) fail(fmt::format("--q-scale: 1 scale is needed, not {}", values.size()));
    work.q_scale = values.front();
  }
  const auto quantization = resolved.operand.value_or(OperandConfig{}).quantization;
  const bool files = !k.empty();
  const auto apply = [&](const std::string& text, const char* option, std::int64_t depth,
                         std::optional<Scales>& scales) {
    if (!text.empty() && !quantization)
      fail(fmt::format("{} needs a config with operand.quantization", option));
    if (!quantization || (text.empty() && !files)) return;
    Scales shape{*quantization, work.shape.heads_kv, depth, {}, work.shape.offsets_k()};
    const std::size_t count = scale_count(shape, work.shape.total_k());
    std::vector<float> values = text.empty() ? std::vector<float>{1.0F} : read_scale(text, option);
    if (values.size() == 1) values.assign(count, values.front());
    if (values.size() != count)
      fail(fmt::format("{}: {} scales are needed, not {}", option, count, values.size()));
    shape.values = std::move(values);
    scales = std::move(shape);
  };
  apply(k_scale, "--k-scale", work.shape.depth - work.rope_depth, work.k_scale);
  if (!work.v_from_k) apply(v_scale, "--v-scale", work.shape.ov_depth, work.v_scale);
}

void ProblemOptions::apply_page_table(const Config& resolved, Workload& work) const {
  if (page_table.empty()) return;
  const OperandConfig operand = resolved.operand.value_or(OperandConfig{});
  if (!operand_form(operand.kind).pages()) fail("--page-table needs a config with a paged operand");
  const NpyArray array = read_npy(page_table);
  if (array.shape.size() != 2 || array.shape[0] != work.shape.batch()) {
    fail(fmt::format("{}: shape {} is not [batch, max_pages] for a batch of {}", page_table,
                     shape_text(array.shape), work.shape.batch()));
  }
  work.pages = given_pages(work.shape.lengths_k, operand.page_size.value_or(1), array.shape[1],
                           to_integers(array, page_table), page_table.c_str());
}

// Sink and mask of the config: from files, else random.
void ProblemOptions::read_extras(const Config& resolved, Workload& work) const {
  const ProblemShape& shape = work.shape;
  if (resolved.sink.value_or(false)) {
    if (work.sink.empty()) work.sink = random_normal(static_cast<std::size_t>(shape.heads_q), seed, 3);
    if (!sink.empty()) {
      const NpyArray array = read_npy(sink);
      if (array.shape != std::vector<std::int64_t>{shape.heads_q})
        fail(fmt::format("{}: shape {} is not [heads_q] = [{}]", sink, shape_text(array.shape),
                         shape.heads_q));
      work.sink = to_floats(array);
    }
  } else if (!sink.empty()) {
    fail("--sink needs a config with \"sink\": true");
  }
  if (resolved.mask.value_or(MaskConfig{}).kind == MaskConfig::Kind::custom) {
    if (!mask_bits.empty()) {
      work.mask_bits = read_mask(mask_bits, shape);
    } else if (!work.mask_bits) {
      work.mask_bits = random_mask(shape, seed);
    }
  } else if (!mask_bits.empty()) {
    fail("--mask-bits needs a config with \"mask\": \"custom\"");
  }
  read_captured(resolved, work);
}

// Captured tensors: random ones are there, where Q, K and V came from files, too.
void ProblemOptions::read_captured(const Config& resolved, Workload& work) const {
  const ScoreMod mod = resolved.score_mod.value_or(ScoreMod{});
  if (!mod.tensors.empty() && work.captured.empty())
    work.captured = random_captured(work.shape, resolved, seed);
  const auto wanted = mod.tensors.empty() ? std::vector<Manifest::Captured>() : captured_of(mod);
  for (const std::string& option : captured) {
    const std::size_t split = std::min(option.find('='), option.size());
    const std::string name = option.substr(0, split);
    const auto found =
        std::find_if(wanted.begin(), wanted.end(), [&](const auto& one) { return one.name == name; });
    if (split == option.size()) fail(fmt::format("--captured {}: NAME=FILE.npy is needed", option));
    if (found == wanted.end())
      fail(fmt::format("--captured {}: the config's score expression has no tensor '{}'", option, name));
    const NpyArray array = read_npy(option.substr(split + 1));
    if (array.shape.size() != found->indices.size()) {
      fail(fmt::format("--captured {}: shape {}, but the expression has {} ind{} for it", option,
                       shape_text(array.shape), found->indices.size(),
                       found->indices.size() == 1 ? "ex" : "ices"));
    }
    CapturedValues values{array.shape, to_floats(array)};
    if (values.values.empty()) fail(fmt::format("--captured {}: it has no elements", option));
    if (found->dtype == DType::bf16 || found->dtype == DType::fp16) round_to(found->dtype, values.values);
    work.captured[static_cast<std::size_t>(found - wanted.begin())] = std::move(values);
  }
}

Workload ProblemOptions::workload(const Config& resolved) const {
  refuse_conflicts();
  const bool files = !q.empty() || !k.empty() || !v.empty();
  Workload work =
      files ? workload_from_files(resolved) : random_workload(shape_from_options(resolved), resolved, seed);
  apply_scales(resolved, work);
  apply_page_table(resolved, work);
  read_extras(resolved, work);
  return work;
}

void DeviceOptions::declare(CLI::App& command) {
  command.add_option("--device", device,
                     "auto, cuda[:n], hip[:n] or emulated (default: $KILN_DEVICE, else auto)");
  command
      .add_option("--policy", policy,
                  "When the emulated device completes asynchronous work: eager, lazy or random")
      ->check(CLI::IsMember({"eager", "lazy", "random"}));
}

RuntimeOptions DeviceOptions::runtime_options(std::uint64_t seed) const {
  RuntimeOptions options;
  options.device = device;
  if (!policy.empty()) options.emulator.policy = *policy_from(policy);
  options.emulator.seed = seed;
  return options;
}

}  // namespace kiln::cli
