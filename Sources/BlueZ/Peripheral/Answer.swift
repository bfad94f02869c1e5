import Glibc

/// Resumes whoever waits, exactly once: also when nobody answers.
final class Answer<Value: Sendable>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var waiting: CheckedContinuation<Result<Value, AttributeError>, Never>?

    init(_ waiting: CheckedContinuation<Result<Value, AttributeError>, Never>) {
        self.waiting = waiting
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        waiting?.resume(returning: .failure(.unlikely))
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    func give(_ answer: Result<Value, AttributeError>) {
        pthread_mutex_lock(mutex)
        let waiting = waiting
        self.waiting = nil
        pthread_mutex_unlock(mutex)
        waiting?.resume(returning: answer)
    }
}
