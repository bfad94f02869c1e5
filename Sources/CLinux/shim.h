// Wrappers for Linux functions that are variadic in C. Swift cannot call variadic C functions.
#include <sys/prctl.h>

// Sets whether the kernel may dump this process's memory and other processes of the same user may read it (prctl(2)).
// Returns 0 on success.
static inline int clinux_set_dumpable(int is_dumpable) { return prctl(PR_SET_DUMPABLE, (unsigned long)is_dumpable, 0UL, 0UL, 0UL); }
