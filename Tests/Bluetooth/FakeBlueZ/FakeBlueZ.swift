import BlueZ
package import DBus
import OTAFirmware
import OTASigning
package import OTASimulator

/// A simulated bluetoothd on a private bus, with a virtual device in range. It implements the D-Bus behaviour of bluetoothd that a
/// client can see. That behaviour was observed with BlueZ 5.66 or read in its source. The conformance tests pass with both.
///
/// There are two differences. A disconnection takes 50 ms instead of 2 s. And a read of all objects still returns a signal strength
/// that bluetoothd would have cleared.
package actor FakeBlueZ {
    /// Another device in range. It only advertises.
    package struct Neighbour: Sendable {
        package var address: String
        package var name: String
        package var services: [String]
        package var rssi: Int16

        package init(_ address: String, _ name: String, services: [String] = [], rssi: Int16 = -60) {
            self.address = address
            self.name = name
            self.services = services
            self.rssi = rssi
        }
    }

    static let adapter: DBusObjectPath = "/org/bluez/hci0"
    static let address = "00:AA:01:01:00:42"
    static let device = adapter.appending("dev_00_AA_01_01_00_42")

    nonisolated let peripheral: any SimulatedDevice
    let passkey: UInt32?
    let name: String
    private let bus: DBusBus
    private let neighbours: [Neighbour]
    /// The signal strength of the device at a second adapter, in dBm. Nil: the machine has one adapter.
    private let secondRSSI: Int16?
    private let start = ContinuousClock.now

    var connection: DBusConnection?
    var isPowered = true
    var isInRange = true
    private var discoverers: [String: Task<Void, Never>] = [:]
    private var advertisements: Task<Void, Never>?
    private var visible: Set<DBusObjectPath> = []
    /// The devices whose signal strength is reported.
    private var heard: Set<DBusObjectPath> = []

    // The link.
    var link: UInt16?
    var lastLink: UInt16 = 0
    /// The pending `Connect` call.
    var connecting: CheckedContinuation<Void, any Error>?
    /// The number of ended links whose end is not yet reported. The next link begins only after the report.
    var unreportedEnds = 0
    package var isPaired = false
    var agent: (owner: String, path: DBusObjectPath, capability: String)?
    // The offers of programs in the peripheral role.
    var application: Application?
    var waitingForAdvertisement: [AsyncStream<Void>.Continuation] = []
    var advertisement: (owner: String, path: DBusObjectPath, properties: [String: DBusValue])?
    /// The open sockets, by characteristic.
    var writeEnds: [DBusObjectPath: CInt] = [:]
    var notifyEnds: [DBusObjectPath: CInt] = [:]
    var outbox: AsyncStream<Outgoing>.Continuation?
    /// The queue of notifications from the peripheral.
    private var feed: AsyncStream<Notification>.Continuation?
    var busy: Set<DBusObjectPath> = []
    var notifying: Set<DBusObjectPath> = []

    // Settings and observations of a test.
    /// The errors with which the next calls of `Connect` fail.
    package var connectErrors: [DBusError] = []
    /// Whether the device sends a Security Request at once, and pairs without a passkey before its services are known.
    package var requestsSecurity = false
    /// The errors with which the next calls of `RegisterAdvertisement` fail.
    package var advertisementErrors: [DBusError] = []
    /// The number of links that break during service discovery.
    package var earlyBreaks = 0
    /// The number of service discoveries without the peripheral's services. This simulates a cache of earlier firmware.
    package var staleTables = 0
    /// The effect of a command that uses a stale attribute table: it reaches another attribute of the device.
    package enum StaleEffect: Sendable {
        /// The other attribute refuses each command.
        case refused(DBusError)
        /// The other attribute accepts each command, and a read returns its value. No notification arrives.
        case accepted
    }
    package var staleEffect = StaleEffect.accepted
    /// Whether each restart of the device moves its attributes, as other firmware does.
    package var movesAttributes = false
    /// The number of the device's attribute table.
    private var table = 0
    /// The number of the table that bluetoothd has read; nil: no table. bluetoothd keeps a table until the device is removed.
    private var cachedTable: Int?
    var hasStaleTable: Bool { cachedTable.map { $0 != table } ?? false }
    /// The error with which each subscription fails; nil: none.
    package var subscriptionError: DBusError?
    /// The number of removals of the device from bluetoothd.
    package private(set) var removals = 0
    /// The name in the device's GAP service, if it differs from the advertised name.
    package var nameInService: String?
    /// Whether the report of a link's end comes 0.3 s late, after the reply to `Disconnect`.
    package var endsAreLate = false
    /// Whether bluetoothd offers sockets. An old version does not.
    package var offersSockets = true
    package internal(set) var connects = 0
    /// Whether a `Connect` call waits for the device.
    package var isListening: Bool { connecting != nil }

    package init(
        _ bus: DBusBus, _ peripheral: any SimulatedDevice, name: String = "Virtual", passkey: UInt32? = nil,
        neighbours: [Neighbour] = [], secondRSSI: Int16? = nil
    ) {
        self.bus = bus
        self.peripheral = peripheral
        self.name = name
        self.passkey = passkey
        self.neighbours = neighbours
        self.secondRSSI = secondRSSI
    }

    package func adjust(_ body: @Sendable (isolated FakeBlueZ) -> Void) { body(self) }

    /// Gives bluetoothd an attribute table of the device from an earlier connection. The table is stale.
    package func cacheStaleTable() async {
        cachedTable = table
        table += 1
        visible.insert(Self.device)
        try? await connection?.export(Self.device, [deviceInterface(rssi: nil)])
        await exportTable()
    }

    func cacheTable() { cachedTable = cachedTable ?? table }

    func moveAttributes() { if movesAttributes { table += 1 } }

    /// Whether the device runs this release, confirmed or on trial.
    package nonisolated func runs(_ release: FakeRelease) -> Bool {
        (peripheral as? VirtualDevice)?.runningImage == release.bundle.image
    }

    var now: Duration { start.duration(to: .now) }

    // MARK: - Start and end

    /// Starts the service, for the first time or again.
    package func run() async throws {
        let connection = try await DBusConnection.open(bus)
        self.connection = connection
        try await connection.export(.root, managesObjects: true)
        try await connection.export("/org/bluez", [agentManager])
        try await connection.export(Self.adapter, [adapterInterface] + managers)
        if let secondRSSI { try await exportSecondAdapter(hearing: secondRSSI) }
        let (queue, outbox) = AsyncStream.makeStream(of: Outgoing.self)
        self.outbox = outbox
        Task { for await item in queue { self.sendOut(item) } }
        let (notifications, feed) = AsyncStream.makeStream(of: Notification.self)
        self.feed = feed
        peripheral.observe { connection, channel, value in
            feed.yield(.value(connection, channel, value))
            return true
        } onRestart: {
            feed.yield(.restart)
        }
        Task { for await notification in notifications { await self.passOn(notification) } }
        Task {
            // The simulated device has no clock of its own: `poll` runs its timers.
            while self.connection != nil {
                _ = peripheral.poll(at: now)
                try? await Task.sleep(for: .milliseconds(2))
            }
        }
        try await connection.requestName(BlueZName.service)
    }

    /// Ends the service as SIGKILL does.
    package func die() async {
        drop(reports: false)
        outbox?.finish()
        outbox = nil
        feed?.finish()
        feed = nil
        for discoverer in discoverers.values { discoverer.cancel() }
        discoverers = [:]
        visible = []
        heard = []
        agent = nil
        application = nil
        advertisement = nil
        isPaired = false
        advertisements?.cancel()
        await connection?.close()
        connection = nil
    }

    // MARK: - The adapter

    private var adapterInterface: DBusInterface {
        DBusInterface(
            BlueZName.adapter,
            methods: [
                DBusMethod("SetDiscoveryFilter", takes: [DBusArgument("filter", .properties)]) { _ throws(DBusError) in
                    []
                },
                method("StartDiscovery") { try await $0.startDiscovery($1.sender) },
                method("StopDiscovery") { try await $0.stopDiscovery($1.sender) },
                method("RemoveDevice", takes: [DBusArgument("device", .objectPath)]) {
                    try await $0.removeDevice(try $1.arguments.require(0, \.objectPath))
                },
            ],
            properties: [
                DBusProperty("Address", "00:AA:01:00:00:42"), DBusProperty("Alias", "fake"),
                DBusProperty("Powered", .boolean(isPowered)) { [weak self] value throws(DBusError) in
                    await self?.setPower(value.boolean ?? false)
                },
                DBusProperty("Discovering", false),
            ])
    }

    nonisolated func method(
        _ name: String, takes inputs: [DBusArgument] = [], returns outputs: [DBusArgument] = [],
        _ body: @escaping @Sendable (isolated FakeBlueZ, DBusIncomingCall) async throws -> [DBusValue]
    ) -> DBusMethod {
        // With Swift 6.3.1, other forms of this closure run on any thread and lose the order of the calls.
        DBusMethod(name, takes: inputs, returns: outputs) { try await self.carryOut($0, body) }
    }

    private func carryOut(
        _ call: DBusIncomingCall, _ body: @Sendable (isolated FakeBlueZ, DBusIncomingCall) async throws -> [DBusValue]
    ) async throws -> [DBusValue] {
        do { return try await body(self, call) } catch {
            throw error as? DBusError ?? .bluez("Failed", "\(error)")
        }
    }

    func update(_ path: DBusObjectPath, _ interface: String, _ values: [String: DBusValue]) async {
        try? await connection?.update(path, interface, values)
    }

    private func setPower(_ power: Bool) async {
        isPowered = power
        guard !power else { return }
        drop(reports: true)
        connecting?.resume(throwing: DBusError.bluez("Failed", "br-connection-canceled"))
        connecting = nil
        for discoverer in discoverers.values { discoverer.cancel() }
        discoverers = [:]
        await update(Self.adapter, BlueZName.adapter, ["Discovering": false])
    }

    private func startDiscovery(_ sender: String) async throws -> [DBusValue] {
        guard isPowered else { throw DBusError.bluez("NotReady", "Resource Not Ready") }
        guard discoverers[sender] == nil else { throw DBusError.bluez("InProgress", "Operation already in progress") }
        discoverers[sender] = Task { await self.watch(sender) }
        await update(Self.adapter, BlueZName.adapter, ["Discovering": true])
        advertisements?.cancel()
        advertisements = Task {
            while !Task.isCancelled, !discoverers.isEmpty {
                await advertise()
                // The simulated advertising interval.
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
        return []
    }

    /// Ends the discovery and removes the agent of a client that leaves the bus.
    private func watch(_ sender: String) async {
        guard let owners = try? await connection?.owners(of: sender) else { return }
        var iterator = owners.makeAsyncIterator()
        while let owner = try? await iterator.next() { if owner == nil { break } }
        guard !Task.isCancelled else { return }
        _ = try? await stopDiscovery(sender)
        if agent?.owner == sender { agent = nil }
    }

    private func stopDiscovery(_ sender: String) async throws -> [DBusValue] {
        guard let discoverer = discoverers.removeValue(forKey: sender) else {
            throw DBusError.bluez("Failed", "No discovery started")
        }
        discoverer.cancel()
        guard discoverers.isEmpty else { return [] }
        advertisements?.cancel()
        await update(Self.adapter, BlueZName.adapter, ["Discovering": false])
        // bluetoothd clears every signal strength. The objects remain: for 30 s if the device was never connected.
        let cleared: [DBusValue] = [.string(BlueZName.device), .properties([:]), .strings(["RSSI"])]
        for path in heard where path != Self.device || link == nil {
            try? await connection?.emit(path, BlueZName.properties, "PropertiesChanged", cleared)
        }
        heard = []
        return []
    }

    private func advertise() async {
        for neighbour in neighbours {
            let path = Self.adapter.appending("dev_" + neighbour.address.split(separator: ":").joined(separator: "_"))
            await hear(path, neighbour.rssi, neighbour.interface)
        }
        if link == nil, isAdvertising { await hear(Self.device, -50, deviceInterface(rssi: -50)) }
    }

    private func hear(_ path: DBusObjectPath, _ rssi: Int16, _ interface: DBusInterface) async {
        guard heard.insert(path).inserted else { return }
        if visible.insert(path).inserted {
            try? await connection?.export(path, [interface])
        } else {
            await update(path, BlueZName.device, ["RSSI": .int16(rssi)])
        }
    }

    var isAdvertising: Bool {
        guard isInRange else { return false }
        _ = peripheral.poll(at: now)
        return peripheral.reachable(at: now).map { $0 <= peripheral.now } ?? false
    }

    private func removeDevice(_ device: DBusObjectPath) async throws -> [DBusValue] {
        guard visible.contains(device) else { throw DBusError.bluez("DoesNotExist", "Does Not Exist") }
        if link != nil {
            // The simulated duration of a disconnection.
            try? await Task.sleep(for: .milliseconds(50))
            drop(reports: true)
        }
        removals += 1
        isPaired = false
        cachedTable = nil
        visible.remove(device)
        heard.remove(device)
        await connection?.unexport(device)
        return []
    }
}

extension DBusError {
    static func bluez(_ name: String, _ message: String) -> DBusError { .remote("org.bluez.Error." + name, message) }
}

extension FakeBlueZ.Neighbour {
    fileprivate var interface: DBusInterface {
        DBusInterface(
            BlueZName.device,
            properties: [
                DBusProperty("Adapter", .objectPath(FakeBlueZ.adapter)), DBusProperty("Address", .string(address)),
                DBusProperty("Name", .string(name)), DBusProperty("RSSI", .int16(rssi)),
                DBusProperty("UUIDs", .strings(services)), DBusProperty("Connected", false),
            ])
    }
}
