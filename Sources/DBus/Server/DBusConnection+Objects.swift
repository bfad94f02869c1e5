import Logging

extension DBusConnection {
    /// Exports an object, with Introspectable, Properties and Peer; with `managesObjects` it also has an ObjectManager that
    /// tells of every object beneath it. It is there until `unexport` or the end of the connection, and what its handlers
    /// hold is held. Throws `invalidArguments`, and `disconnected`.
    ///
    /// - Parameter caller: a well-known name such as `org.bluez`. Only its owner, at the time of each call, may call the object; others
    ///   are answered `AccessDenied`. Nil: everybody may.
    public func export(
        _ path: DBusObjectPath, _ interfaces: [DBusInterface] = [], managesObjects: Bool = false,
        onlyFor caller: String? = nil
    ) async throws(DBusError) {
        try checkConnected()
        if let caller { try await track(caller) }
        try objects.add(path, interfaces, managesObjects: managesObjects, caller: caller)
        let properties = try objects.object(path).properties
        for manager in objects.managers(of: path) {
            try emit(manager, Standard.objectManager, "InterfacesAdded", [.objectPath(path), properties])
        }
    }

    /// Takes back an object and all beneath it. Handlers that run go on.
    public func unexport(_ path: DBusObjectPath) {
        for (path, object) in objects.remove(path) {
            for manager in objects.managers(of: path) {
                let names = DBusValue.strings(object.interfaces.map(\.name))
                try? emit(manager, Standard.objectManager, "InterfacesRemoved", [.objectPath(path), names])
            }
        }
    }

    /// Gives properties new values, and tells of them even if they equal the old ones. Throws `invalidArguments` for a value
    /// of another type, `remote` when there is no such object, interface or property, and `disconnected`.
    public func update(
        _ path: DBusObjectPath, _ interface: String, _ values: [String: DBusValue]
    ) throws(DBusError) {
        try checkConnected()
        try objects.update(path, interface, values)
        let properties = try objects.object(path).interface(interface).properties
        let announced = properties.filter { $0.announcement == .value && values.keys.contains($0.name) }.map(\.name)
        let invalidated = properties.filter { $0.announcement == .invalidation && values.keys.contains($0.name) }
        guard !announced.isEmpty || !invalidated.isEmpty else { return }
        try emit(
            path, Standard.properties, "PropertiesChanged",
            [
                .string(interface), .properties(values.filter { announced.contains($0.key) }),
                .strings(invalidated.map(\.name)),
            ])
    }

    /// Sends a signal to whoever wants it. Throws `invalidArguments` and `disconnected`.
    public func emit(
        _ path: DBusObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = []
    ) throws(DBusError) {
        _ = try send(.signal(path, interface, member, arguments))
    }

    // MARK: - Calls that come

    func receivedCall(_ message: Message) {
        let address = message.wantsReply ? ReturnAddress(serial: message.serial, sender: message.sender) : nil
        do throws(DBusError) {
            try checkCaller(message)
            let call = objects.completed(
                DBusIncomingCall(
                    sender: message.sender, path: message.path, interface: message.interface, member: message.member,
                    arguments: try MessageReader.arguments(of: message), wantsReply: message.wantsReply))
            switch try objects.route(call) {
            case .answer(let values):
                answer(address, .success(values))
            case .handle(let method):
                handle(address) {
                    let values = try await method.handler(call)
                    try method.check(values)
                    return values
                }
            case .set(let property, let value, let interface):
                handle(address) {
                    try await property.setter?(value)
                    try await self.update(call.path, interface, [property.name: value])
                    return []
                }
            }
        } catch {
            answer(address, .failure(error))
        }
    }

    /// Throws `AccessDenied` unless the sender may call the object. `owners` is in order with the messages.
    private func checkCaller(_ message: Message) throws(DBusError) {
        guard let name = objects.objects[message.path]?.caller, owners[name] != .some(message.sender) else { return }
        throw .remote(DBusError.Name.accessDenied, "only the owner of \(name) may call \(message.path)")
    }

    /// Runs `body` on this actor and sends what comes of it.
    private func handle(
        _ address: ReturnAddress?, _ body: @escaping @Sendable () async throws -> [DBusValue]
    ) {
        let ticket = newTicket()
        handlers[ticket] = Task {
            let result: Result<[DBusValue], DBusError>
            do { result = .success(try await body()) } catch {
                result = .failure(error as? DBusError ?? .remote(DBusError.Name.failed, "\(error)"))
            }
            handlers[ticket] = nil
            answer(address, result)
        }
    }

    private func answer(_ address: ReturnAddress?, _ result: Result<[DBusValue], DBusError>) {
        do throws(DBusError) {
            let values = try result.get()
            guard let address else { return }
            _ = try send(.reply(to: address, values))
        } catch {
            refuse(address, error)
        }
    }

    private func refuse(_ address: ReturnAddress?, _ error: DBusError) {
        logger.debug("a call failed", metadata: ["error": "\(error)"])
        // When even this cannot be sent the connection has ended, and the bus answers the caller.
        if let address { _ = try? send(.failure(to: address, error)) }
    }
}

extension DBusMethod {
    fileprivate func check(_ values: [DBusValue]) throws(DBusError) {
        guard values.map(\.type) == outputs.map(\.type) else {
            throw DBusError(.invalidArguments, "\(name) returned other values than it declares")
        }
    }
}
