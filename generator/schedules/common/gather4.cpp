#include "generator/schedules/common/gather4.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "generator/operands/operand_form.hpp"
#include "generator/systems/sm90/mha_operand.hpp"

namespace kiln {
namespace {

constexpr int kRows = sm90::MHAOperand::kGathered;

std::string swizzle_name(int bytes) {
  return bytes == 0 ? "none" : fmt::format("{}B", bytes);
}

/// The types that a map may have by name are fewer than those of a cache.
std::string map_type(DType type) {
  return type == DType::int8 ? "" : std::string(to_string(type));
}

void check_members(const Config& c, const GatherTile& tile, const Refusals& refuse) {
  const Gather4& g = *c.gather4;
  if (g.tile_height != kRows && g.tile_height != tile.keys)
    refuse("V18", {"/gather4/tile_height"},
           fmt::format("an instruction brings 4 rows, all of them together the {} keys of a tile", tile.keys),
           fmt::format("{}, {}", kRows, tile.keys));
  if (g.tile_width.value_or(tile.columns) != tile.columns)
    refuse("V18", {"/gather4/tile_width"}, "whole rows of K are gathered", std::to_string(tile.columns));
  if (g.tile_stride)
    refuse("V18", {"/gather4/tile_stride"}, "the tensors of a launch say how far their rows lie apart",
           "leave it out");
  const std::string type = map_type(*c.kv_dtype);
  if (!g.tma_dtype.empty() && g.tma_dtype != type)
    refuse("V18", {"/gather4/tma_dtype"}, "elements are copied as the cache has them",
           type.empty() ? "leave it out" : type);
  const std::string swizzle = swizzle_name(tile.swizzle_bytes);
  if (!g.swizzle.empty() && g.swizzle != swizzle)
    refuse("V18", {"/gather4/swizzle"},
           tile.swizzle_bytes == 0 ? "bytes that are converted lie in rows" : "products read swizzled rows",
           swizzle);
}

}  // namespace

bool gathers(const Config& c, int BN) {
  if (c.gather4) return true;
  if (!operand_form(c.operand->kind).pages() || !c.operand->page_size) return false;
  return sm90::MHAOperand::piece_rows(BN, *c.operand->page_size) < kRows;
}

void resolve_gather4(Config& c, const GatherTile& tile, const Refusals& refuse) {
  if (!gathers(c, tile.keys)) return;
  if (!operand_form(c.operand->kind).pages())
    return refuse("V17", {"/gather4", "/operand/kind"}, "rows are gathered by a page table",
                  "operand.kind paged");
  if (!c.gather4) c.gather4.emplace();
  check_members(c, tile, refuse);
  Gather4& g = *c.gather4;
  g.tile_width = tile.columns;
  g.tma_dtype = map_type(*c.kv_dtype);
  g.swizzle = swizzle_name(tile.swizzle_bytes);
  if (g.l2_promotion.empty()) g.l2_promotion = "none";
}

int gather4_l2_promotion(const Config& c, int usual) {
  if (!c.gather4) return usual;
  const std::string& said = c.gather4->l2_promotion;
  return said == "none" ? 0 : std::stoi(said);
}

}  // namespace kiln
