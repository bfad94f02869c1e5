// Wrappers for Linux functions that are variadic in C. Swift cannot call variadic C functions.
#include <sys/prctl.h>

// Sets the attribute "dumpable" of this process (prctl(2), PR_SET_DUMPABLE). If it is 0, the kernel writes no core dump of the process,
// and other processes of the same user cannot read its memory. Returns 0 on success.
static inline int clinux_set_dumpable(int is_dumpable) { return prctl(PR_SET_DUMPABLE, (unsigned long)is_dumpable, 0UL, 0UL, 0UL); }
