import Logging

extension DBusConnection {
    /// Exports an object with these interfaces and the standard interfaces Introspectable, Properties and Peer.
    ///
    /// The object exists until `unexport` or until the connection ends. Until then, everything that its handlers reference
    /// stays alive.
    ///
    /// - Parameters:
    ///   - managesObjects: whether the object also has an ObjectManager, which announces every object below `path`.
    ///   - caller: a well-known name, such as `org.bluez`. At the time of a call, only the owner of this name may call the
    ///     object. Other callers get `AccessDenied`. Nil: every program may call it.
    ///
    /// - Throws: `invalidArguments` and `disconnected`. If `caller` is set, also the errors of `call`.
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

    /// Removes an object and all objects below it. Running method handlers continue.
    public func unexport(_ path: DBusObjectPath) {
        for (path, object) in objects.remove(path) {
            for manager in objects.managers(of: path) {
                let names = DBusValue.strings(object.interfaces.map(\.name))
                try? emit(manager, Standard.objectManager, "InterfacesRemoved", [.objectPath(path), names])
            }
        }
    }

    /// Sets new values of properties and announces them, even if they equal the old values.
    ///
    /// - Throws: `invalidArguments` for a value of the wrong type or a constant property; `remote` if the object, interface or
    ///   property does not exist; `disconnected`.
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

    /// Sends a signal to all subscribers. Throws `invalidArguments` and `disconnected`.
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

    /// Throws `remote` with the name `AccessDenied` if the sender may not call the object. The check is reliable, because
    /// changes of `owners` and calls are processed in the order of their arrival.
    private func checkCaller(_ message: Message) throws(DBusError) {
        guard let name = objects.objects[message.path]?.caller, owners[name] != .some(message.sender) else { return }
        throw .remote(DBusError.Name.accessDenied, "only the owner of \(name) may call \(message.path)")
    }

    /// Runs `body` on this actor and sends its result or error.
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
        // An error here means that the connection has ended. In this case, the bus sends an error reply to the caller.
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
