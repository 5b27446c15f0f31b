// A stand-in for libcuda, NVRTC and NCCL with one device. Device memory is host memory, kernels do nothing. Every call is counted; the
// one that fakeFailAt() names fails. Calls that give something back succeed in it all the same, as the driver's do when they
// report an earlier failure. What is alive is counted, so that a test sees what was lost.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kFailed = 999, kProgramText = 64 };
static int calls, fail_at, memories, contexts, stack, libraries, events, programs, streams, communicators;
static const char* failed = "";

void fakeFailAt(int call) { calls = 0, fail_at = call, failed = ""; }
int fakeCalls(void) { return calls; }
const char* fakeFailed(void) { return failed; }
const char* fakeAlive(void) {
  static char text[240];
  if (memories + contexts + stack + libraries + events + programs + streams + communicators == 0) return "";
  snprintf(text, sizeof text, "%d allocations, %d contexts, %d on the stack, %d libraries, %d events, %d programs, %d streams, %d communicators",
           memories, contexts, stack, libraries, events, programs, streams, communicators);
  return text;
}
static int step(const char* name) {
  if (++calls != fail_at) return 0;
  failed = name;
  return kFailed;
}
#define STEP_OR_FAIL \
  if (step(__func__)) return kFailed

int cuInit(unsigned flags) { return step(__func__) || flags; }
int cuDriverGetVersion(int* version) { return *version = 13000, step(__func__); }
int cuGetErrorName(int result, const char** text) { return *text = result ? "CUDA_ERROR_FAKE" : "CUDA_SUCCESS", 0; }
int cuGetErrorString(int result, const char** text) { return *text = result ? "a fake error" : "no error", 0; }
int cuDeviceGetCount(int* count) { return *count = 1, step(__func__); }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, step(__func__); }
int cuDeviceGetName(char* name, int size, int device) { return snprintf(name, (size_t)size, "Fake %d", device), step(__func__); }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 97 ? 232448 : 0;
  return step(__func__);
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return (void)device, *bytes = (size_t)80 << 30, step(__func__); }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  (void)device;
  STEP_OR_FAIL;
  return *context = &contexts, ++contexts, 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, --contexts, step(__func__); }
int cuCtxPushCurrent_v2(void* context) {
  STEP_OR_FAIL;
  return context == &contexts ? (++stack, 0) : kFailed;
}
int cuCtxPopCurrent_v2(void** context) { return *context = &contexts, --stack, step(__func__); }
int cuCtxGetCurrent(void** context) { return *context = stack > 0 ? &contexts : NULL, step(__func__); }
int cuCtxSynchronize(void) { return step(__func__); }
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  STEP_OR_FAIL;
  void* memory = bytes > (size_t)1 << 30 ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == NULL) return kFailed;
  return *address = (unsigned long long)(uintptr_t)memory, ++memories, 0;
}
int cuMemFree_v2(unsigned long long address) {
  if (address == 0) return step(__func__);
  return free((void*)(uintptr_t)address), --memories, step(__func__);
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t bytes) {
  return memcpy((void*)(uintptr_t)to, from, bytes), step(__func__);
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t bytes) {
  return memcpy(to, (void*)(uintptr_t)from, bytes), step(__func__);
}
int cuMemsetD8_v2(unsigned long long to, unsigned char value, size_t bytes) {
  return memset((void*)(uintptr_t)to, value, bytes), step(__func__);
}
int cuEventCreate(void** event, unsigned flags) {
  STEP_OR_FAIL;
  return (void)flags, *event = malloc(1), ++events, 0;
}
int cuEventRecord(void* event, void* stream) { return (void)event, (void)stream, step(__func__); }
int cuEventSynchronize(void* event) { return (void)event, step(__func__); }
int cuEventElapsedTime(float* ms, void* start, void* stop) { return (void)start, (void)stop, *ms = 0.25f, step(__func__); }
int cuEventDestroy_v2(void* event) { return free(event), --events, step(__func__); }
int cuEventQuery(void* event) {
  static int asked;
  STEP_OR_FAIL;
  return (void)event, ++asked % 2 ? 600 : 0;  // not ready, then ready
}
int cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -1, step(__func__); }
int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  STEP_OR_FAIL;
  return (void)flags, (void)priority, *stream = malloc(1), ++streams, 0;
}
int cuStreamDestroy_v2(void* stream) { return free(stream), --streams, step(__func__); }
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return (void)stream, (void)event, (void)flags, step(__func__);
}
int cuModuleLoadData(void** module, const void* image) { return (void)module, (void)image, kFailed; }
int cuModuleGetFunction(void** function, void* module, const char* name) { return (void)function, (void)module, (void)name, kFailed; }
int cuModuleUnload(void* module) { return (void)module, kFailed; }
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  return (void)attribute, (void)function, *value = 8, step(__func__);
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  return (void)function, (void)attribute, (void)value, step(__func__);
}
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  return (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)parameters,
         (void)extra, kFailed;
}
int cuLaunchKernelEx(const void* config, void* function, void** parameters, void** extra) {
  return (void)config, (void)function, (void)parameters, (void)extra, step(__func__);
}
int cuLibraryLoadData(void** library, const void* code, void* a, void* b, unsigned c, void* d, void* e, unsigned f) {
  STEP_OR_FAIL;
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
  if (strncmp(code, "fake cubin", 10) != 0) return kFailed;
  return *library = malloc(1), ++libraries, 0;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) { return (void)name, *kernel = library, step(__func__); }
int cuLibraryUnload(void* library) { return free(library), --libraries, step(__func__); }
int cuKernelGetFunction(void** function, void* kernel) { return *function = kernel, step(__func__); }
int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const void* extents, const void* strides,
                           const void* box, const void* steps, int interleave, int swizzle, int promotion, int fill) {
  (void)type, (void)rank, (void)address, (void)extents, (void)strides, (void)box, (void)steps, (void)interleave, (void)swizzle;
  return (void)promotion, (void)fill, memset(map, 0, 128), step(__func__);
}

int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, step(__func__); }
const char* nvrtcGetErrorString(int result) { return result ? "a fake error" : "no error"; }
int nvrtcCreateProgram(void** program, const char* text, const char* name, int count, const void* headers, const void* names) {
  STEP_OR_FAIL;
  (void)text, (void)name, (void)count, (void)headers, (void)names;
  return *program = malloc(1), ++programs, 0;
}
int nvrtcDestroyProgram(void** program) {
  if (*program != NULL) free(*program), --programs;
  return *program = NULL, step(__func__);
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  return (void)program, (void)count, (void)options, step(__func__);
}
static int size_of(size_t* size, const char* name) { return *size = kProgramText, step(name); }
static int text_of(char* to, const char* text, const char* name) {
  memset(to, 0, kProgramText);
  strcpy(to, text);
  return step(name);
}
int nvrtcGetProgramLogSize(void* p, size_t* size) { return (void)p, size_of(size, __func__); }
int nvrtcGetProgramLog(void* p, char* to) { return (void)p, text_of(to, "Used 8 registers", __func__); }
int nvrtcGetPTXSize(void* p, size_t* size) { return (void)p, size_of(size, __func__); }
int nvrtcGetPTX(void* p, char* to) { return (void)p, text_of(to, "fake ptx", __func__); }
int nvrtcGetCUBINSize(void* p, size_t* size) { return (void)p, size_of(size, __func__); }
int nvrtcGetCUBIN(void* p, char* to) { return (void)p, text_of(to, "fake cubin", __func__); }

// NCCL whose calls end later, as those of a communicator that does not block.
int ncclGetVersion(int* version) { return *version = 22700, 0; }
const char* ncclGetErrorString(int result) { return result ? "a fake error" : "no error"; }
const char* ncclGetLastError(void* communicator) { return (void)communicator, ""; }
typedef struct {
  char bytes[128];
} Id;
int ncclGetUniqueId(Id* id) { return memset(id, 1, sizeof *id), step(__func__); }
int ncclCommInitRankConfig(void** communicator, int size, Id id, int rank, void* settings) {
  STEP_OR_FAIL;
  (void)size, (void)id, (void)rank, (void)settings;
  return *communicator = malloc(1), ++communicators, 7;
}
int ncclCommGetAsyncError(void* communicator, int* state) { return (void)communicator, *state = 0, step(__func__); }
int ncclGroupStart(void) { return step(__func__); }
int ncclGroupEnd(void) { return step(__func__) ? kFailed : 7; }
int ncclSend(const void* from, size_t count, int type, int peer, void* communicator, void* stream) {
  return (void)from, (void)count, (void)type, (void)peer, (void)communicator, (void)stream, step(__func__);
}
int ncclRecv(void* to, size_t count, int type, int peer, void* communicator, void* stream) {
  return (void)to, (void)count, (void)type, (void)peer, (void)communicator, (void)stream, step(__func__);
}
int ncclAllGather(const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
  return (void)from, (void)to, (void)count, (void)type, (void)communicator, (void)stream, step(__func__);
}
int ncclCommFinalize(void* communicator) { return (void)communicator, step(__func__); }
int ncclCommDestroy(void* communicator) { return free(communicator), --communicators, step(__func__); }
int ncclCommAbort(void* communicator) { return free(communicator), --communicators, step(__func__); }
