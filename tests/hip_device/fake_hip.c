// A stand-in for libamdhip64 with one device, for machines without AMD hardware. Device memory is host memory. A launch of
// the function called "report" writes what it was given to the address in its first parameter: grid, block, LDS bytes,
// stream, then the second parameter, an i32. FAKE_HIP_DEVICES sets the number of devices, FAKE_HIP_FAIL names a call that fails.
// Every call is counted; the one that fakeFailAt() names fails. What is alive is counted, so that a test sees what was lost.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kFailed = 1 };
static int current = 0, loaded = 0, memories = 0, events = 0;
static int calls, fail_at;
static const char* failed = "";

void fakeFailAt(int call) { calls = 0, fail_at = call, failed = ""; }
int fakeCalls(void) { return calls; }
const char* fakeFailed(void) { return failed; }
const char* fakeAlive(void) {
  static char text[100];
  if (memories + events + loaded == 0) return "";
  snprintf(text, sizeof text, "%d allocations, %d events, %d modules", memories, events, loaded);
  return text;
}
static int step(const char* name) {
  const char* chosen = getenv("FAKE_HIP_FAIL");
  if (chosen != NULL && strcmp(chosen, name) == 0) return kFailed;
  if (++calls != fail_at) return 0;
  failed = name;
  return kFailed;
}
#define STEP_OR_FAIL \
  if (step(__func__)) return kFailed

int hipInit(unsigned flags) { return step(__func__) || flags; }
int hipRuntimeGetVersion(int* version) { return *version = 60240000, step(__func__); }
const char* hipGetErrorName(int result) { return result == 0 ? "hipSuccess" : "hipErrorFake"; }
const char* hipGetErrorString(int result) { return result == 0 ? "no error" : "a fake error"; }
int hipGetDeviceCount(int* count) {
  const char* chosen = getenv("FAKE_HIP_DEVICES");
  return *count = chosen == NULL ? 1 : atoi(chosen), step(__func__);
}
int hipGetDevice(int* device) { return *device = current, step(__func__); }
int hipSetDevice(int device) { return current = device, step(__func__); }
int hipDeviceGetName(char* name, int size, int device) {
  return snprintf(name, (size_t)size, "Fake Instinct %d", device), step(__func__);
}
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  return *value = attribute == 63 ? 304 : attribute == 74 ? 65536 : -1, step(__func__);
}
int hipDeviceTotalMem(size_t* bytes, int device) { return (void)device, *bytes = (size_t)192 << 30, step(__func__); }
int hipGetDevicePropertiesR0600(void* properties, int device) {
  (void)device;
  memset(properties, 0, 1472);
  strcpy(properties, "Fake Instinct");
  strcpy((char*)properties + 1160, "gfx942:sramecc+:xnack-");
  return step(__func__);
}
int hipDeviceSynchronize(void) { return step(__func__); }
int hipMalloc(void** address, size_t bytes) {
  STEP_OR_FAIL;
  if (bytes > (size_t)1 << 40 || (*address = malloc(bytes)) == NULL) return kFailed;
  return ++memories, 0;
}
int hipFree(void* address) {
  if (address != NULL) free(address), --memories;
  return step(__func__);
}
int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return kind == 1 || kind == 2 ? (memcpy(to, from, bytes), step(__func__)) : kFailed;
}
int hipMemset(void* to, int value, size_t bytes) { return memset(to, value, bytes), step(__func__); }
int hipEventCreate(void** event) {
  STEP_OR_FAIL;
  return *event = malloc(1), ++events, 0;
}
int hipEventRecord(void* event, void* stream) { return (void)event, (void)stream, step(__func__); }
int hipEventSynchronize(void* event) { return (void)event, step(__func__); }
int hipEventElapsedTime(float* ms, void* start, void* stop) { return *ms = start != stop ? 0.25f : 0.0f, step(__func__); }
int hipEventDestroy(void* event) { return free(event), --events, step(__func__); }
int hipModuleLoadData(void** module, const void* image) {
  STEP_OR_FAIL;
  if (memcmp(image, "\x7f" "ELF", 4) != 0) return kFailed;
  return *module = &loaded, ++loaded, 0;
}
int hipModuleGetFunction(void** function, void* module, const char* name) {
  if (module != &loaded || strcmp(name, "report") != 0) return kFailed;
  return *function = &current, step(__func__);
}
int hipModuleUnload(void* module) { return module == &loaded ? (--loaded, step(__func__)) : kFailed; }
int hipFuncGetAttribute(int* value, int attribute, void* function) {
  return (void)attribute, (void)function, *value = 8, step(__func__);
}
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned lds, void* stream, void** parameters, void** extra) {
  STEP_OR_FAIL;
  if (function != &current || extra != NULL) return kFailed;
  const unsigned numbers[] = {gx, gy, gz, bx, by, bz, lds, (unsigned)(uintptr_t)stream, *(unsigned*)parameters[1]};
  memcpy(*(void**)parameters[0], numbers, sizeof numbers);
  return 0;
}
// How many modules are loaded; for the test.
int fakeHipLoaded(void) { return loaded; }
