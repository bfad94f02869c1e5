// Linux functions that the module Glibc of Swift does not contain, and wrappers for functions that are variadic in C. Swift cannot call
// variadic C functions.
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

// Sets the attribute "dumpable" of this process (prctl(2), PR_SET_DUMPABLE). If `is_dumpable` is 0, the kernel writes no core dump of this
// process, and other processes of the same user cannot read the memory of this process. Returns 0 on success.
static inline int clinux_set_dumpable(int is_dumpable) { return prctl(PR_SET_DUMPABLE, (unsigned long)is_dumpable, 0UL, 0UL, 0UL); }
