import DBus

/// What the handler is still to hear of, in order. Confined to the peripheral's thread.
struct PeripheralInbox {
    typealias Reply<Value> = CheckedContinuation<Result<Value, AttributeError>, Never>

    enum Item: Sendable {
        case event(ConnectionTable.Event)
        case read(PeripheralConnection, LocalAttribute, offset: Int, Reply<[UInt8]>)
        /// Without a reply: nobody waits for it.
        case write(PeripheralConnection, LocalAttribute, offset: Int, [UInt8], Reply<Void>?)
    }

    private var items: [Item] = []
    private var reader: CheckedContinuation<[Item], Never>?
    private var isClosed = false

    mutating func add(_ new: [Item]) {
        guard !new.isEmpty else { return }
        guard !isClosed else { return new.forEach { $0.refuse() } }
        items += new
        wake()
    }

    /// What is there is still read.
    mutating func close() {
        isClosed = true
        wake()
    }

    /// Everything that is there, or will be; nothing: it was closed. For one reader.
    mutating func take(_ reader: CheckedContinuation<[Item], Never>) {
        self.reader = reader
        wake()
    }

    private mutating func wake() {
        guard let reader, isClosed || !items.isEmpty else { return }
        self.reader = nil
        reader.resume(returning: items)
        items = []
    }
}

extension PeripheralInbox.Item {
    fileprivate func refuse() {
        switch self {
        case .event: break
        case .read(_, _, _, let reply): reply.resume(returning: .failure(.unlikely))
        case .write(_, _, _, _, let reply): reply?.resume(returning: .failure(.unlikely))
        }
    }

    func deliver(to handler: some PeripheralHandler) async {
        switch self {
        case .event(.connected(let connection)): await handler.connected(connection)
        case .event(.disconnected(let connection)): await handler.disconnected(connection)
        case .event(.subscribed(let connection, let attribute, let on)):
            await handler.subscribed(connection, to: attribute, on: on)
        case .read(let connection, let attribute, let offset, let reply):
            do throws(AttributeError) {
                reply.resume(returning: .success(try await handler.read(connection, attribute, offset: offset)))
            } catch { reply.resume(returning: .failure(error)) }
        case .write(let connection, let attribute, let offset, let value, let reply):
            do throws(AttributeError) {
                try await handler.write(connection, attribute, offset: offset, value)
                reply?.resume(returning: .success(()))
            } catch { reply?.resume(returning: .failure(error)) }
        }
    }
}
