/* The stub of the Zephyr module. */
#include "../../../../zephyr/tests/stubs/psa/crypto.h"
