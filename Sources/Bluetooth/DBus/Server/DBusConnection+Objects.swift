import Logging

extension DBusConnection {
    /// Exports an object, so that other programs can call its methods and use its properties. The object has `interfaces`
    /// and the standard interfaces Introspectable, Properties and Peer.
    ///
    /// The object exists until `unexport` removes the object or the connection ends. Until then, the connection holds
    /// references to the object's handlers.
    ///
    /// - Parameters:
    ///   - managesObjects: true if the object also has the standard interface ObjectManager, which announces all objects below `path`.
    ///   - caller: the well-known name of the only program that may call the object, such as `org.bluez`. Every other program gets the
    ///     error `AccessDenied`. If `caller` is nil, every program may call the object.
    ///
    /// - Throws: `invalidArguments` if a name, a path or a value is malformed, or if `path` is already exported;
    ///   `disconnected`; `resourcesExhausted`; the errors of `call` if `caller` is not nil.
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

    /// Removes the object at `path` and all objects below `path`. Method handlers that are already running continue.
    public func unexport(_ path: DBusObjectPath) {
        for (path, object) in objects.remove(path) {
            for manager in objects.managers(of: path) {
                let names = DBusValue.strings(object.interfaces.map(\.name))
                try? emit(manager, Standard.objectManager, "InterfacesRemoved", [.objectPath(path), names])
            }
        }
    }

    /// Sets new values of properties. The connection announces each value as declared in ``DBusProperty/announcement``, even if the
    /// value has not changed.
    ///
    /// - Throws: `invalidArguments` if a value has the wrong type or a property is constant; `remote` if the object, the
    ///   interface or a property does not exist; `disconnected`; `resourcesExhausted`.
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

    /// Sends a signal to all subscribers. Throws `disconnected` and `resourcesExhausted`. Throws `invalidArguments` if a name or a value
    /// is malformed.
    public func emit(
        _ path: DBusObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = []
    ) throws(DBusError) {
        _ = try send(.signal(path, interface, member, arguments))
    }

    // MARK: - Incoming calls

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

    /// Throws `remote` with the name `AccessDenied` if the sender of the message may not call the object.
    ///
    /// If the object has a `caller`, only the owner of this bus name may call the object. `owners` contains the owner that the name had
    /// when the bus sent the call (see `track`).
    private func checkCaller(_ message: Message) throws(DBusError) {
        guard let name = objects.objects[message.path]?.caller, owners[name] != .some(message.sender) else { return }
        throw .remote(DBusError.Name.accessDenied, "only the owner of \(name) may call \(message.path)")
    }

    /// Runs `body` in a task on this actor. Sends the result or the error of `body` as the reply.
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
        // Ignore an error of `send`. If the connection has ended, the bus itself sends an error reply to the caller.
        if let address { _ = try? send(.failure(to: address, error)) }
    }
}

extension DBusMethod {
    fileprivate func check(_ values: [DBusValue]) throws(DBusError) {
        guard values.map(\.type) == outputs.map(\.type) else {
            throw DBusError(.invalidArguments, "\(name) returned values that do not match its declared outputs")
        }
    }
}
