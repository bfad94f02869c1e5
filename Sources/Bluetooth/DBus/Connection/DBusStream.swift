/// An asynchronous sequence of signals or changes from the bus. Only one task may read the sequence.
///
/// The stream buffers all elements, in order and without a limit, until the task reads them. If the connection ends, the stream throws
/// `disconnected`. If the reading task is cancelled, the stream ends without an error. The stream holds a reference to the connection,
/// so the release of all other references does not end the connection.
public struct DBusStream<Element: Sendable>: AsyncSequence, Sendable {
    typealias Elements = AsyncStream<Result<Element, DBusError>>

    let elements: Elements
    let connection: DBusConnection

    public func makeAsyncIterator() -> Iterator {
        Iterator(elements: elements.makeAsyncIterator(), connection: connection)
    }

    public struct Iterator: AsyncIteratorProtocol {
        var elements: Elements.Iterator
        let connection: DBusConnection

        public mutating func next() async throws(DBusError) -> Element? { try await next(isolation: #isolation) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(DBusError) -> Element? {
            try await elements.next(isolation: actor)?.get()
        }
    }
}

extension AsyncStream.Continuation {
    /// Ends the stream with an error. The reader gets the buffered elements first.
    func fail<Value>(_ error: DBusError) where Element == Result<Value, DBusError> {
        yield(.failure(error))
        finish()
    }
}
