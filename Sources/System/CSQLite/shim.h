#include <sqlite3.h>

// Binds a copy of the bytes. Swift cannot use SQLITE_TRANSIENT, because it is a cast in C. sqlite3_bind_blob64 would bind NULL if there are
// no bytes.
static inline int csqlite_bind_bytes(sqlite3_stmt *statement, int place, const void *bytes, sqlite3_uint64 count) {
    return count == 0 ? sqlite3_bind_zeroblob(statement, place, 0)
                      : sqlite3_bind_blob64(statement, place, bytes, count, SQLITE_TRANSIENT);
}

// Binds a copy of the UTF-8 text.
static inline int csqlite_bind_text(sqlite3_stmt *statement, int place, const char *text) {
    return sqlite3_bind_text(statement, place, text, -1, SQLITE_TRANSIENT);
}
