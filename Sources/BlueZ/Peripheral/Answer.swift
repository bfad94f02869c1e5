import DescriptorIO

/// Resumes the waiting task exactly once, also if no answer is given.
final class Answer<Value: Sendable>: Sendable {
    typealias Waiting = CheckedContinuation<Result<Value, AttributeError>, Never>
    private let waiting: Guarded<Waiting?>

    init(_ waiting: Waiting) { self.waiting = Guarded(waiting) }

    deinit { give(.failure(.unlikely)) }

    func give(_ answer: Result<Value, AttributeError>) { waiting.exchange(nil)?.resume(returning: answer) }
}
