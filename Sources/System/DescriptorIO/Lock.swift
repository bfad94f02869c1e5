import Glibc

/// A pthread mutex. The mutex is in allocated memory, because the address of a pthread mutex must not change.
///
/// Do not use Swift's `Synchronization.Mutex`, because this type locks with a futex. The thread sanitizer does not detect futex locks,
/// and reports false data races.
package final class Lock: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    package init() {
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    package func locked<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }
}

/// A value that a mutex protects. Only one thread at a time can access the value.
package final class Guarded<Value>: @unchecked Sendable {
    private let lock = Lock()
    private var value: Value

    package init(_ value: sending Value) { self.value = value }

    package func with<Result>(_ body: (inout Value) -> Result) -> Result { lock.locked { body(&value) } }

    package func exchange(_ new: Value) -> Value {
        with { value in
            defer { value = new }
            return value
        }
    }
}
