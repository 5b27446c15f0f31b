// Every schedule kiln has, the default one of each (target, operation) first; where what a config asks for decides, the
// line says who tells. A new main loop is one line here.
#include "generator/config/defaults.hpp"
#include "generator/schedules/cdna_decode/schedule.hpp"
#include "generator/schedules/cdna_prefill/schedule.hpp"
#include "generator/schedules/schedule.hpp"
#include "generator/schedules/sm100_decode/schedule.hpp"
#include "generator/schedules/sm100_latent_pair/schedule.hpp"
#include "generator/schedules/sm100_prefill/schedule.hpp"
#include "generator/schedules/sm80_decode/schedule.hpp"
#include "generator/schedules/sm80_prefill/schedule.hpp"
#include "generator/schedules/sm90_decode/schedule.hpp"
#include "generator/schedules/sm90_prefill/schedule.hpp"

namespace kiln {

std::span<const ScheduleEntry> schedules() {
  // A vector, since the list may be empty in a build without schedules.
  static const std::vector<ScheduleEntry> entries{
      {"sm90_prefill", Target::sm_90a, Operation::prefill, make_sm90_prefill},
      {"sm90_prefill_pingpong", Target::sm_90a, Operation::prefill, make_sm90_prefill_pingpong},
      {"sm90_wide_prefill", Target::sm_90a, Operation::prefill, make_sm90_wide_prefill},
      {"sm90_decode", Target::sm_90a, Operation::decode, make_sm90_decode},
      {"sm100_latent_pair_prefill", Target::sm_100a, Operation::prefill, make_sm100_latent_pair,
       pairs_latent_rows},
      {"sm100_prefill", Target::sm_100a, Operation::prefill, make_sm100_prefill},
      {"sm100_wide_prefill", Target::sm_100a, Operation::prefill, make_sm100_wide_prefill},
      {"sm100_latent_pair", Target::sm_100a, Operation::decode, make_sm100_latent_pair, pairs_latent_rows},
      {"sm100_decode", Target::sm_100a, Operation::decode, make_sm100_decode},
      {"sm100_latent_pair_prefill", Target::sm_103a, Operation::prefill, make_sm100_latent_pair,
       pairs_latent_rows},
      {"sm100_prefill", Target::sm_103a, Operation::prefill, make_sm100_prefill},
      {"sm100_wide_prefill", Target::sm_103a, Operation::prefill, make_sm100_wide_prefill},
      {"sm100_latent_pair", Target::sm_103a, Operation::decode, make_sm100_latent_pair, pairs_latent_rows},
      {"sm100_decode", Target::sm_103a, Operation::decode, make_sm100_decode},
      {"sm80_prefill", Target::sm_80, Operation::prefill, make_sm80_prefill},
      {"sm80_wide_prefill", Target::sm_80, Operation::prefill, make_sm80_wide_prefill},
      {"sm80_decode", Target::sm_80, Operation::decode, make_sm80_decode},
      {"cdna_decode_streaming", Target::gfx90a, Operation::decode, make_cdna_decode_streaming,
       streams_decode},
      {"cdna_decode", Target::gfx90a, Operation::decode, make_cdna_decode},
      {"cdna_decode_streaming", Target::gfx942, Operation::decode, make_cdna_decode_streaming,
       streams_decode},
      {"cdna_decode", Target::gfx942, Operation::decode, make_cdna_decode},
      {"cdna_decode_streaming", Target::gfx950, Operation::decode, make_cdna_decode_streaming,
       streams_decode},
      {"cdna_decode", Target::gfx950, Operation::decode, make_cdna_decode},
      {"cdna_prefill", Target::gfx90a, Operation::prefill, make_cdna_prefill},
      {"cdna_prefill", Target::gfx942, Operation::prefill, make_cdna_prefill},
      {"cdna_prefill_pingpong", Target::gfx942, Operation::prefill, make_cdna_prefill},
      {"cdna_prefill", Target::gfx950, Operation::prefill, make_cdna_prefill},
      {"cdna_prefill_pingpong", Target::gfx950, Operation::prefill, make_cdna_prefill},
  };
  return entries;
}

}  // namespace kiln
