// kiln: config -> source -> compiled kernel -> launch. See docs/ for the manual.
#pragma once

#include <kiln/cascade.hpp>
#include <kiln/config.hpp>
#include <kiln/decode_plan.hpp>
#include <kiln/error.hpp>
#include <kiln/generator.hpp>
#include <kiln/kv_cache.hpp>
#include <kiln/runtime.hpp>
#include <kiln/source.hpp>
#include <kiln/types.hpp>
