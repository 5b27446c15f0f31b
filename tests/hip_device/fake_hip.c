// A stand-in for libamdhip64 with one device, for machines without AMD hardware. Device memory is host memory. A launch of
// the function called "report" writes what it was given to the address in its first parameter: grid, block, LDS bytes,
// stream, then the second parameter, an i32. FAKE_HIP_DEVICES sets the number of devices, FAKE_HIP_FAIL names a call that fails.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kFailed = 1 };
static int current = 0, loaded = 0;

static int fails(const char* call) {
  const char* chosen = getenv("FAKE_HIP_FAIL");
  return chosen != NULL && strcmp(chosen, call) == 0;
}

int hipInit(unsigned flags) { return flags == 0 && !fails("hipInit") ? 0 : kFailed; }
int hipRuntimeGetVersion(int* version) { return *version = 60240000, 0; }
const char* hipGetErrorName(int result) { return result == 0 ? "hipSuccess" : "hipErrorFake"; }
const char* hipGetErrorString(int result) { return result == 0 ? "no error" : "a fake error"; }
int hipGetDeviceCount(int* count) {
  const char* chosen = getenv("FAKE_HIP_DEVICES");
  return *count = chosen == NULL ? 1 : atoi(chosen), 0;
}
int hipGetDevice(int* device) { return *device = current, 0; }
int hipSetDevice(int device) { return current = device, 0; }
int hipDeviceGetName(char* name, int size, int device) {
  return snprintf(name, (size_t)size, "Fake Instinct %d", device), 0;
}
int hipDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  return *value = attribute == 63 ? 304 : attribute == 74 ? 65536 : -1, 0;
}
int hipDeviceTotalMem(size_t* bytes, int device) { return (void)device, *bytes = (size_t)192 << 30, 0; }
int hipGetDevicePropertiesR0600(void* properties, int device) {
  (void)device;
  memset(properties, 0, 1472);
  strcpy(properties, "Fake Instinct");
  strcpy((char*)properties + 1160, "gfx942:sramecc+:xnack-");
  return 0;
}
int hipDeviceSynchronize(void) { return 0; }
int hipMalloc(void** address, size_t bytes) {
  if (bytes > (size_t)1 << 40) return kFailed;
  return (*address = malloc(bytes)) == NULL ? kFailed : 0;
}
int hipFree(void* address) { return free(address), 0; }
int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return kind == 1 || kind == 2 ? (memcpy(to, from, bytes), 0) : kFailed;
}
int hipMemset(void* to, int value, size_t bytes) { return memset(to, value, bytes), 0; }
int hipEventCreate(void** event) { return *event = malloc(1), 0; }
int hipEventRecord(void* event, void* stream) { return (void)event, (void)stream, 0; }
int hipEventSynchronize(void* event) { return (void)event, 0; }
int hipEventElapsedTime(float* ms, void* start, void* stop) { return *ms = start != stop ? 0.25f : 0.0f, 0; }
int hipEventDestroy(void* event) { return free(event), 0; }
int hipModuleLoadData(void** module, const void* image) {
  if (memcmp(image, "\x7f" "ELF", 4) != 0 || fails("hipModuleLoadData")) return kFailed;
  return *module = &loaded, ++loaded, 0;
}
int hipModuleGetFunction(void** function, void* module, const char* name) {
  if (module != &loaded || strcmp(name, "report") != 0) return kFailed;
  return *function = &current, 0;
}
int hipModuleUnload(void* module) { return module == &loaded ? (--loaded, 0) : kFailed; }
int hipFuncGetAttribute(int* value, int attribute, void* function) {
  return (void)attribute, (void)function, *value = 8, 0;
}
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned lds, void* stream, void** parameters, void** extra) {
  if (function != &current || extra != NULL) return kFailed;
  const unsigned numbers[] = {gx, gy, gz, bx, by, bz, lds, (unsigned)(uintptr_t)stream, *(unsigned*)parameters[1]};
  memcpy(*(void**)parameters[0], numbers, sizeof numbers);
  return 0;
}
// How many modules are loaded; for the test.
int fakeHipLoaded(void) { return loaded; }
