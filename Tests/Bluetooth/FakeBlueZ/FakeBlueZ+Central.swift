package import BlueZ
package import DBus

/// The peripheral role: programs on this machine offer services, and a simulated central uses them.
extension FakeBlueZ {
    /// The bus name of the program that offers services.
    package var offeringProgram: String? { application?.owner }

    /// The services that a program has registered.
    struct Application {
        var owner: String
        var root: DBusObjectPath
        var characteristics: [LocalAttribute: Characteristic] = [:]
    }

    struct Characteristic {
        var path: DBusObjectPath
        var properties: [String: DBusValue]
    }

    static let central = adapter.appending("dev_00_AA_01_02_00_42")
    private static let mtu: UInt16 = 247

    var managers: [DBusInterface] {
        let object = DBusArgument("object", .objectPath)
        let options = DBusArgument("options", .properties)
        return [
            DBusInterface(
                BlueZName.gattManager,
                methods: [
                    method("RegisterApplication", takes: [object, options]) { try await $0.registerApplication($1) },
                    method("UnregisterApplication", takes: [object]) { try $0.unregisterApplication($1) },
                ]),
            DBusInterface(
                BlueZName.advertisingManager,
                methods: [
                    method("RegisterAdvertisement", takes: [object, options]) {
                        try await $0.registerAdvertisement($1)
                    },
                    method("UnregisterAdvertisement", takes: [object]) { try $0.unregisterAdvertisement($1) },
                ]),
        ]
    }

    /// The properties of the registered advertisement (`LEAdvertisement1`). Nil: nothing is advertised.
    package var advertisedProperties: [String: DBusValue]? { advertisement?.properties }

    package var offeredAttributes: Set<LocalAttribute> { Set(application?.characteristics.keys.map { $0 } ?? []) }

    // MARK: - Registration

    private func registerApplication(_ call: DBusIncomingCall) async throws -> [DBusValue] {
        let root = try call.arguments.require(0, \.objectPath)
        guard application == nil else { throw DBusError.bluez("AlreadyExists", "Already Exists") }
        var new = Application(owner: call.sender, root: root)
        // bluetoothd also reads the objects before it replies.
        let reply = try await connection?.call(call.sender, root, BlueZName.objectManager, "GetManagedObjects") ?? []
        let objects = try reply.require(0, \.dictionary)
        for (path, interfaces) in objects {
            guard let properties = interfaces.dictionary?[.string(BlueZName.gattCharacteristic)]?.properties,
                let path = path.objectPath, let service = properties["Service"]?.objectPath,
                let owner = objects[.objectPath(service)]?.dictionary?[.string(BlueZName.gattService)]?.properties,
                let serviceUUID = owner["UUID"]?.string.flatMap({ BluetoothUUID($0) }),
                let uuid = properties["UUID"]?.string.flatMap({ BluetoothUUID($0) })
            else { continue }
            new.characteristics[LocalAttribute(serviceUUID, uuid)] = Characteristic(path: path, properties: properties)
        }
        guard !new.characteristics.isEmpty else { throw DBusError.bluez("Failed", "No object received") }
        application = new
        return []
    }

    private func unregisterApplication(_ call: DBusIncomingCall) throws -> [DBusValue] {
        guard application?.owner == call.sender, application?.root == call.arguments.first?.objectPath else {
            throw DBusError.bluez("DoesNotExist", "Does Not Exist")
        }
        application = nil
        return []
    }

    private func registerAdvertisement(_ call: DBusIncomingCall) async throws -> [DBusValue] {
        let path = try call.arguments.require(0, \.objectPath)
        guard advertisement == nil else { throw DBusError.bluez("AlreadyExists", "Already Exists") }
        if !advertisementErrors.isEmpty { throw advertisementErrors.removeFirst() }
        let reply = try await connection?.call(
            call.sender, path, BlueZName.properties, "GetAll", [.string(BlueZName.advertisement)])
        advertisement = (call.sender, path, try (reply ?? []).require(0, \.properties))
        for waiting in waitingForAdvertisement { waiting.finish() }
        waitingForAdvertisement = []
        return []
    }

    private func unregisterAdvertisement(_ call: DBusIncomingCall) throws -> [DBusValue] {
        guard advertisement?.path == call.arguments.first?.objectPath else {
            throw DBusError.bluez("DoesNotExist", "Does Not Exist")
        }
        advertisement = nil
        return []
    }

    /// Waits until a program has registered an advertisement. Returns at once if one is registered.
    package func waitForAdvertisement() async {
        guard advertisement == nil else { return }
        let (registrations, feed) = AsyncStream.makeStream(of: Void.self)
        waitingForAdvertisement.append(feed)
        for await _ in registrations {}
    }

    // MARK: - The central

    package func centralConnects() async throws {
        try await connection?.export(
            Self.central,
            [
                DBusInterface(
                    BlueZName.device,
                    methods: [method("Disconnect") { fake, _ in await fake.centralIsDisconnected() }],
                    properties: [
                        DBusProperty("Adapter", .objectPath(Self.adapter)),
                        DBusProperty("Address", "00:AA:01:02:00:42"), DBusProperty("Connected", true),
                    ])
            ])
    }

    @discardableResult
    package func centralIsDisconnected() async -> [DBusValue] {
        await update(Self.central, BlueZName.device, ["Connected": false])
        await connection?.unexport(Self.central)
        return []
    }

    package func centralReads(_ attribute: LocalAttribute, at offset: UInt16 = 0) async throws -> [UInt8] {
        try await ask(attribute, "ReadValue", [.properties(options(["offset": .uint16(offset)]))])
            .require(0, \.bytes)
    }

    /// Writes the values one after the other without waiting for replies, like packets from the air.
    package func centralWrites(_ values: [[UInt8]], to attribute: LocalAttribute, _ type: String) async throws {
        let (owner, characteristic) = try find(attribute)
        let calls = values.map {
            DBusMethodCall(
                owner, characteristic.path, BlueZName.gattCharacteristic, "WriteValue",
                [.bytes($0), .properties(options(["type": .string(type)]))])
        }
        for answer in await connection?.call(calls) ?? [] { _ = try answer.get() }
    }

    /// Subscribes over a socket if the characteristic offers one, otherwise over the bus. The stream ends when the program closes the
    /// socket or the reading task is cancelled.
    package func centralSubscribes(to attribute: LocalAttribute) async throws -> AsyncStream<[UInt8]> {
        let (owner, characteristic) = try find(attribute)
        guard let connection else { throw DBusError.bluez("Failed", "gone") }
        let (values, feed) = AsyncStream.makeStream(of: [UInt8].self)
        if characteristic.properties["NotifyAcquired"] != nil {
            let reply = try await ask(attribute, "AcquireNotify", [.properties(options([:]))])
            let socket = try PacketSocket(reply.require(0, \.unixFileDescriptor), on: connection.executor)
            let reader = Task {
                for try await packet in socket.packets { feed.yield(packet) }
                feed.finish()
            }
            feed.onTermination = { _ in
                reader.cancel()
                Task { await socket.close() }
            }
        } else {
            let changes = try await DBusRemoteObject(connection, owner, characteristic.path)
                .propertyChanges(BlueZName.gattCharacteristic)
            _ = try await ask(attribute, "StartNotify", [])
            let reader = Task {
                for try await change in changes { if let value = change.changed["Value"]?.bytes { feed.yield(value) } }
                feed.finish()
            }
            feed.onTermination = { [weak self] _ in
                reader.cancel()
                Task { try await self?.ask(attribute, "StopNotify", []) }
            }
        }
        return values
    }

    /// Acquires the socket through which bluetoothd sends the central's writes.
    package func centralAcquiresWriter(of attribute: LocalAttribute) async throws -> PacketSocket {
        guard let connection else { throw DBusError.bluez("Failed", "gone") }
        let reply = try await ask(attribute, "AcquireWrite", [.properties(options([:]))])
        return try PacketSocket(reply.require(0, \.unixFileDescriptor), on: connection.executor)
    }

    private func find(_ attribute: LocalAttribute) throws -> (owner: String, Characteristic) {
        guard let application, let characteristic = application.characteristics[attribute] else {
            throw DBusError.bluez("DoesNotExist", "no program offers this attribute")
        }
        return (application.owner, characteristic)
    }

    private func options(_ more: [String: DBusValue]) -> [String: DBusValue] {
        more.merging(["device": .objectPath(Self.central), "link": "LE", "mtu": .uint16(Self.mtu)]) { own, _ in own }
    }

    @discardableResult
    private func ask(_ attribute: LocalAttribute, _ member: String, _ arguments: [DBusValue]) async throws
        -> [DBusValue]
    {
        let (owner, characteristic) = try find(attribute)
        return try await connection?.call(
            owner, characteristic.path, BlueZName.gattCharacteristic, member, arguments) ?? []
    }
}
