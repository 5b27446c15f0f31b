/* The C interface of the emulated device: what libkiln_emulator.so offers to programs that open it at run
 * time, as kiln::runtime does. It exports one symbol, kiln_emulator_interface. C++ programs link
 * kiln::emulator and use <kiln/emulator/emulator.hpp> instead.
 *
 * Functions that can fail return a status and leave one line in last_error(), kept per thread. Nothing
 * throws. A memory is not synchronised: one call at a time on the same one. */
#ifndef KILN_EMULATOR_LIBRARY_H
#define KILN_EMULATOR_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increased when a struct below changes its meaning. */
#define KILN_EMULATOR_INTERFACE 2

typedef enum {
  KILN_EMULATOR_OK = 0,
  KILN_EMULATOR_FAILED = 1,         /* a malformed program, an illegal launch, a misuse of memory */
  KILN_EMULATOR_MISSING_LIBRARY = 2 /* AMD code objects need an installed LLVM */
} kiln_emulator_status;

typedef struct kiln_emulator_memory kiln_emulator_memory;
typedef struct kiln_emulator_module kiln_emulator_module;
typedef struct kiln_emulator_report kiln_emulator_report;

/* A tensor map as cuTensorMapEncodeTiled takes it: dimensions fastest first, strides of dimensions 1.. in
 * bytes. */
typedef struct {
  int type; /* numbered as CUtensorMapDataType */
  int rank;
  uint64_t address;
  uint64_t extents[5], strides[4];
  uint32_t box[5];
  int swizzle_bytes; /* 0, 32, 64, 128 */
} kiln_emulator_tensor_map;

typedef struct {
  uint64_t address, bytes;
} kiln_emulator_range;

typedef struct {
  const char* entry;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t dynamic_smem_bytes;
  const void* const* parameters; /* one address and size each, in order */
  const uint32_t* parameter_bytes;
  size_t num_parameters;

  int policy; /* 0 eager, 1 lazy, 2 random: when asynchronous work completes */
  uint64_t seed;
  int findings; /* 0: only run */
  int max_findings;
  int stop_at_finding;         /* PTX */
  int host_threads;            /* 0: as many as the host has */
  uint64_t instruction_budget; /* warp instructions of the grid; 0: the default */
  uint32_t num_sms;

  int programmatic;  /* begins while the launch before it runs (PTX) */
  int touches_early; /* nothing that this one touches is written by the launch before it */
  const kiln_emulator_range* early_reads; /* what may be read before the wait */
  size_t num_early_reads;
} kiln_emulator_launch;

typedef struct {
  uint32_t block[3];
  int warp, lane; /* -1: not one warp, not one lane */
  int line;       /* of the PTX text or the disassembly; 0: unknown */
  int source_line, caller_line;
  const char* text; /* of that line */
} kiln_emulator_site;

typedef struct {
  const char *kind, *message;
  kiln_emulator_site site;
  int has_other;
  kiln_emulator_site other; /* the second party of a race, or who owns what was touched */
  uint64_t count;
  int note; /* worth knowing, no fault */
} kiln_emulator_finding;

typedef struct {
  const char* name;
  uint64_t value;
} kiln_emulator_counter;

/* What a launch did. Strings and arrays are valid until the report is destroyed. */
typedef struct {
  const kiln_emulator_counter* counters;
  size_t num_counters;
  const kiln_emulator_finding* findings;
  size_t num_findings;
  const char* output; /* what the kernel printed */
  int completed;      /* 0: stopped by a trap, a deadlock, the budget or an unrecoverable access */
} kiln_emulator_result;

typedef struct {
  unsigned version; /* KILN_EMULATOR_INTERFACE */
  const char* (*last_error)(void);

  kiln_emulator_status (*memory_create)(kiln_emulator_memory** memory);
  void (*memory_destroy)(kiln_emulator_memory* memory);
  kiln_emulator_status (*allocate)(kiln_emulator_memory* memory, size_t bytes, const char* name,
                                   uint64_t* address);
  kiln_emulator_status (*release)(kiln_emulator_memory* memory, uint64_t address);
  kiln_emulator_status (*write)(kiln_emulator_memory* memory, uint64_t address, const void* data,
                                size_t bytes);
  kiln_emulator_status (*read)(const kiln_emulator_memory* memory, uint64_t address, void* data,
                               size_t bytes);
  kiln_emulator_status (*fill)(kiln_emulator_memory* memory, uint64_t address, int value, size_t bytes);

  kiln_emulator_status (*encode_tensor_map)(const kiln_emulator_tensor_map* map, void* bytes128);

  /* PTX text of NVIDIA targets, code objects of AMD ones. */
  kiln_emulator_status (*load_ptx)(const char* text, size_t bytes, const char* name,
                                   kiln_emulator_module** module);
  kiln_emulator_status (*load_code_object)(const void* data, size_t bytes, const char* name,
                                           kiln_emulator_module** module);
  void (*module_destroy)(kiln_emulator_module* module);

  /* Runs one grid to its end. What the kernel does wrong is in the result, which lives as long as the report.
   */
  kiln_emulator_status (*launch)(kiln_emulator_memory* memory, const kiln_emulator_module* module,
                                 const kiln_emulator_launch* launch, kiln_emulator_report** report,
                                 const kiln_emulator_result** result);
  void (*report_destroy)(kiln_emulator_report* report);
} kiln_emulator_functions;

/* The functions, or NULL when the library does not have that version of the interface. */
const kiln_emulator_functions* kiln_emulator_interface(unsigned version);

#ifdef __cplusplus
}
#endif

#endif
