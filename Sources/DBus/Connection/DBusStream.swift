/// A sequence of elements from the bus, for one reader. Elements stay in order and are buffered until the reader reads them.
/// The sequence throws when the connection ends. It ends without an error when the reading task is cancelled. The stream keeps
/// the connection open.
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
    /// Ends the `DBusStream` with an error.
    func fail<Value>(_ error: DBusError) where Element == Result<Value, DBusError> {
        yield(.failure(error))
        finish()
    }
}
