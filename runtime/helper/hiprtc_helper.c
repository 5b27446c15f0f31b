// The process in which HIPRTC runs. HIPRTC compiles one program at a time, aborts on targets that it does not know, and
// takes LLVM's fatal errors as its own; here that ends this process and not the caller's. The library carries this
// program inside itself (runtime/compiler/hiprtc.cpp starts it), so nothing has to be found or installed.
//
// Standard input is a request, standard output the answer, both lists of fields: u64 length, bytes.
//   find:    "find", library names...                          -> "ok", path of the first that is HIPRTC
//                                                              -> "none", what each said
//   compile: "compile", library, file name, source, options... -> "ok", log, code object
//                                                              -> "refused", log, error text
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  char* bytes;
  uint64_t size;
} Field;

static int (*create)(void**, const char*, const char*, int, const char**, const char**);
static int (*compile)(void*, int, const char**);
static int (*log_size)(void*, size_t*);
static int (*get_log)(void*, char*);
static int (*code_size)(void*, size_t*);
static int (*get_code)(void*, char*);
static const char* (*error_text)(int);

static void die(const char* what) {
  fprintf(stderr, "hiprtc helper: %s\n", what);
  exit(120);
}

static void* take(size_t bytes) {
  void* memory = calloc(bytes + 1, 1);
  if (memory == NULL) die("out of memory");
  return memory;
}

static void put(FILE* out, const char* bytes, uint64_t size) {
  if (fwrite(&size, sizeof size, 1, out) != 1 || fwrite(bytes, 1, size, out) != size) die("cannot write its answer");
}

static int resolve(void* library, void* pointer, const char* name) {
  void* symbol = dlsym(library, name);
  memcpy(pointer, &symbol, sizeof symbol);
  return symbol != NULL;
}

// The library, or NULL and why in `problem`.
static void* open_library(const char* name, const char** problem) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    *problem = dlerror();
    return NULL;
  }
  *problem = "has no HIPRTC in it";
  const int all = resolve(library, &create, "hiprtcCreateProgram") && resolve(library, &compile, "hiprtcCompileProgram") &&
                  resolve(library, &log_size, "hiprtcGetProgramLogSize") && resolve(library, &get_log, "hiprtcGetProgramLog") &&
                  resolve(library, &code_size, "hiprtcGetCodeSize") && resolve(library, &get_code, "hiprtcGetCode") &&
                  resolve(library, &error_text, "hiprtcGetErrorString");
  return all ? library : NULL;
}

static void find(FILE* out, const Field* names, int count) {
  char said[4096] = "";
  for (int i = 0; i < count; ++i) {
    const char* problem = NULL;
    void* library = open_library(names[i].bytes, &problem);
    struct link_map* map = NULL;
    if (library != NULL && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
      put(out, "ok", 2);
      put(out, map->l_name, strlen(map->l_name));
      return;
    }
    // A name that the loader does not know is the usual case and says nothing new.
    const size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s%s: %s", used == 0 ? "" : "; ", names[i].bytes, problem);
  }
  put(out, "none", 4);
  put(out, said, strlen(said));
}

static void compile_program(FILE* out, const Field* fields, int count) {
  const char* problem = NULL;
  if (count < 3) die("malformed request");
  if (open_library(fields[0].bytes, &problem) == NULL) die(problem);
  void* program = NULL;
  int result = create(&program, fields[2].bytes, fields[1].bytes, 0, NULL, NULL);
  size_t logged = 0, coded = 0;
  char* log = take(0);
  if (result == 0) {
    const char** options = take((size_t)count * sizeof *options);
    for (int i = 3; i < count; ++i) options[i - 3] = fields[i].bytes;
    result = compile(program, count - 3, options);
    if (log_size(program, &logged) == 0 && logged > 0) {
      log = take(logged);
      get_log(program, log);
    }
  }
  char* code = NULL;
  if (result == 0) result = code_size(program, &coded);
  if (result == 0) {
    code = take(coded);
    result = get_code(program, code);
  }
  if (result == 0) {
    put(out, "ok", 2);
    put(out, log, strlen(log));
    put(out, code, coded);
  } else {
    const char* text = error_text(result);
    put(out, "refused", 7);
    put(out, log, strlen(log));
    put(out, text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
  }
}

int main(void) {
  // What the compiler prints must not run into the answer.
  FILE* out = fdopen(dup(STDOUT_FILENO), "wb");
  if (out == NULL || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) die("has no standard output");
  enum { kMaxFields = 64 };
  static Field fields[kMaxFields];
  int count = 0;
  uint64_t size = 0;
  while (count < kMaxFields && fread(&size, sizeof size, 1, stdin) == 1) {
    if (size > (1u << 30)) die("malformed request");
    fields[count] = (Field){take(size), size};
    if (fread(fields[count].bytes, 1, size, stdin) != size) die("request is cut short");
    ++count;
  }
  if (count > 0 && strcmp(fields[0].bytes, "find") == 0) {
    find(out, fields + 1, count - 1);
  } else if (count > 0 && strcmp(fields[0].bytes, "compile") == 0) {
    compile_program(out, fields + 1, count - 1);
  } else {
    die("malformed request");
  }
  if (fclose(out) != 0) die("cannot write its answer");
  // The compiler's exit handlers have nothing to do for us, and some versions crash in them.
  _exit(0);
}
