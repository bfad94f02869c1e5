// Calls of Linux that are variadic in C, so that Swift cannot make them.
#include <sys/prctl.h>

// Whether the kernel may dump this process's memory, and another process of the same user may read it (prctl(2)). 0 on success.
static inline int clinux_set_dumpable(int is_dumpable) { return prctl(PR_SET_DUMPABLE, (unsigned long)is_dumpable, 0UL, 0UL, 0UL); }
