/// What comes from the bus, in order, kept until it is read: for one reader. It throws when the connection ends, and ends
/// without an error when the reading task is cancelled. While it is held the connection is held.
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
    /// Ends a `DBusStream`.
    func fail<Value>(_ error: DBusError) where Element == Result<Value, DBusError> {
        yield(.failure(error))
        finish()
    }
}
