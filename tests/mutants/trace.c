// Which blocks of code ran: GCC's -fsanitize-coverage=trace-pc calls this at the start of each. A program or module
// sets the byte of the block's address in the file $SPECDEC_TRACE/NAME, which outlives a killed process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { size = 1 << 27 };
static unsigned char* ran;
static const unsigned char* base;

__attribute__((constructor)) static void open_trace(void) {
  const char* folder = getenv("SPECDEC_TRACE");
  Dl_info info;
  if (!folder || !dladdr((void*)&open_trace, &info)) return;
  const char* slash = strrchr(info.dli_fname, '/');
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", folder, slash ? slash + 1 : info.dli_fname);
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  if (ftruncate(file, size) == 0) {
    void* mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    base = info.dli_fbase;
    if (mapped != MAP_FAILED) ran = mapped;
  }
  close(file);
}

void __sanitizer_cov_trace_pc(void) {
  const size_t at = (size_t)((const unsigned char*)__builtin_return_address(0) - base);
  if (ran && at < size) ran[at] = 1;
}
