import DBus

/// The agent that answers bluetoothd's requests during pairing (BlueZ, `doc/agent-api.txt`). A bus connection has one agent. Only
/// bluetoothd may call the agent.
///
/// A responder belongs to one device, or to an adapter. The agent forwards each request to the responder of the device. If the device has
/// no responder, the agent forwards the request to the responder of the adapter. The agent is registered only while it has a responder.
///
/// This agent is also the default agent: bluetoothd uses this agent instead of the agents of other programs. If a device refuses a
/// read or a write with "insufficient authentication", bluetoothd itself starts a pairing and sends its requests to the default
/// agent. After the pairing, bluetoothd repeats the read or the write.
actor PairingAgent {
    nonisolated let executor: DBusExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    private struct Entry {
        var ticket: Int
        /// The path of the device or the adapter to which the responder belongs.
        var device: DBusObjectPath
        var responder: PairingResponder
    }

    private static let path: DBusObjectPath = "/bluez/agent"

    private let bus: DBusConnection
    private let device: @Sendable (DBusObjectPath) async -> BluetoothDevice?
    /// The function that the agent calls after each request for a device that has a responder. `wasAnswered` is false if the responder
    /// refused the pairing. `authenticates` is true for a passkey or a comparison.
    private let onQuestion: @Sendable (DBusObjectPath, _ wasAnswered: Bool, _ authenticates: Bool) async -> Void
    private var entries: [Entry] = []
    private var lastTicket = 0
    /// The I/O capability with which the agent is registered; nil if the agent is not registered.
    private var registered: String?
    private var changes = ChangeQueue()
    /// The task that answers the current request. bluetoothd sends one request at a time, and may cancel the request.
    private var question: Task<[DBusValue]?, Never>?

    init(
        _ bus: DBusConnection, device: @escaping @Sendable (DBusObjectPath) async -> BluetoothDevice?,
        onQuestion: @escaping @Sendable (DBusObjectPath, _ wasAnswered: Bool, _ authenticates: Bool) async -> Void
    ) {
        self.bus = bus
        self.device = device
        self.onQuestion = onQuestion
        executor = bus.executor
    }

    // MARK: - Responders

    /// Adds a responder for a device, or for all devices of an adapter, and registers the agent if necessary. Returns when the registration
    /// has succeeded or failed. In both cases, call `remove` when the responder is no longer necessary.
    func add(
        _ responder: PairingResponder, for device: DBusObjectPath
    ) async -> (ticket: Int, Result<Void, BlueZError>) {
        lastTicket += 1
        entries.append(Entry(ticket: lastTicket, device: device, responder: responder))
        return (lastTicket, await reconcile())
    }

    func remove(_ ticket: Int) async {
        entries.removeAll { $0.ticket == ticket }
        if entries.isEmpty { question?.cancel() }
        _ = await reconcile()
    }

    private func reconcile() async -> Result<Void, BlueZError> { await changes.add { await self.adjust() }.value }

    private func adjust() async -> Result<Void, BlueZError> {
        let wanted = capability
        guard wanted != registered else { return .success(()) }
        do throws(DBusError) {
            if registered != nil {
                registered = nil
                try await call("UnregisterAgent", [.objectPath(Self.path)])
                await bus.unexport(Self.path)
            }
            if let wanted {
                try await bus.export(Self.path, [interface], onlyFor: BlueZName.service)
                try await call("RegisterAgent", [.objectPath(Self.path), .string(wanted)])
                registered = wanted
                // Ignore an error of this call. After an error, bluetoothd uses this agent only for the `Pair` calls of this program.
                _ = try? await call("RequestDefaultAgent", [.objectPath(Self.path)])
            }
            return .success(())
        } catch {
            await bus.unexport(Self.path)
            return .failure(BlueZError(error, "register a pairing agent"))
        }
    }

    /// The I/O capability that the responders need; nil if no responder exists. bluetoothd uses one agent with one capability for all
    /// devices. If the responders have different capabilities, the agent uses "KeyboardDisplay", which permits all answers.
    private var capability: String? {
        guard let first = entries.first?.responder.capability else { return nil }
        return entries.allSatisfy { $0.responder.capability == first } ? first : "KeyboardDisplay"
    }

    private func call(_ member: String, _ arguments: [DBusValue]) async throws(DBusError) {
        _ = try await bus.call(BlueZName.service, BlueZName.daemon, BlueZName.agentManager, member, arguments)
    }

    // MARK: - Requests

    private var interface: DBusInterface {
        let device = DBusArgument("device", .objectPath)
        let passkey = DBusArgument("passkey", .uint32)
        return DBusInterface(
            BlueZName.agent,
            methods: [
                DBusMethod("RequestPasskey", takes: [device], returns: [passkey]) {
                    [weak self] call throws(DBusError) in
                    try await Self.answer(
                        self?.ask(call) { responder, device in
                            await responder.passkey?(device).map { [.uint32($0)] }
                        })
                },
                DBusMethod("RequestConfirmation", takes: [device, passkey]) { [weak self] call throws(DBusError) in
                    try await Self.answer(
                        self?.ask(call) { responder, device in
                            let shown = call.arguments.last?.uint32 ?? 0
                            return await responder.confirmation?(device, shown) == true ? [] : nil
                        })
                },
                // bluetoothd sends this request before it creates an unauthenticated bond, but only if bluetoothd itself or the device has
                // started the pairing. If this program has started the pairing with `Pair`, bluetoothd does not send this request. The
                // agent refuses the request if the responder refuses all pairings or requires authentication.
                DBusMethod("RequestAuthorization", takes: [device]) { [weak self] call throws(DBusError) in
                    try await Self.answer(
                        self?.ask(call, authenticates: false) { responder, _ in
                            responder.acceptsUnauthenticated ? [] : nil
                        })
                },
                DBusMethod("Cancel") { [weak self] _ throws(DBusError) in
                    await self?.cancelQuestion()
                    return []
                },
                DBusMethod("Release") { [weak self] _ throws(DBusError) in
                    await self?.released()
                    return []
                },
            ])
    }

    private func ask(
        _ call: DBusIncomingCall, authenticates: Bool = true,
        _ body: @escaping @Sendable (PairingResponder, BluetoothDevice) async -> [DBusValue]?
    ) async -> [DBusValue]? {
        guard let path = call.arguments.first?.objectPath, let device = await device(path),
            let responder = responder(for: path)
        else { return nil }
        let question = Task { await body(responder, device) }
        self.question = question
        let answer = await question.value
        await onQuestion(path, answer != nil, authenticates)
        return answer
    }

    private func responder(for device: DBusObjectPath) -> PairingResponder? {
        (entries.first { $0.device == device } ?? entries.first { device.isDescendant(of: $0.device) })?.responder
    }

    private static func answer(_ values: [DBusValue]?) throws(DBusError) -> [DBusValue] {
        guard let values else { throw .remote("org.bluez.Error.Rejected", "refused") }
        return values
    }

    private func cancelQuestion() { question?.cancel() }

    private func released() { registered = nil }
}

/// Answers a device's requests during pairing. bluetoothd sends the I/O capability of this machine to the device. The I/O capability
/// determines whether the bond is authenticated (Core Specification, Vol 3, Part H, 2.3.2). If `passkey` is not nil, this machine can
/// enter digits. If `confirmation` is not nil, this machine can show a number and accept "yes" or "no".
public struct PairingResponder: Sendable {
    /// Returns the passkey that the device shows, from 0 to 999 999 (six digits). If the function returns nil, the agent refuses the
    /// pairing.
    public var passkey: (@Sendable (BluetoothDevice) async -> UInt32?)?
    /// Returns true if the user confirms that the device shows the second argument, a number with six digits. If the function returns
    /// false, the agent refuses the pairing.
    public var confirmation: (@Sendable (BluetoothDevice, UInt32) async -> Bool)?
    /// True for ``refusing``. With such a responder, this program must not start a pairing.
    package private(set) var refusesAll = false
    /// Whether this responder accepts a pairing without a passkey and without a comparison.
    private(set) var acceptsUnauthenticated = true

    public init(
        passkey: (@Sendable (BluetoothDevice) async -> UInt32?)? = nil,
        confirmation: (@Sendable (BluetoothDevice, UInt32) async -> Bool)? = nil
    ) {
        self.passkey = passkey
        self.confirmation = confirmation
    }

    /// Pairs without questions to a user. The link is then encrypted, but the device is not authenticated. If a device requires an
    /// authenticated bond for a read or a write, the read or the write fails. bluetoothd reports this error only after 30 s (BlueZ 5.66).
    public static let justWorks = PairingResponder()

    /// Refuses each pairing that needs a passkey. Use this responder in a program without a user. A device without a display and without
    /// a keyboard needs no passkey. The pairing with such a device succeeds, as with `justWorks`.
    public static let unattended = PairingResponder(passkey: { _ in nil })

    /// Refuses each pairing, even a pairing without a passkey. If a device requires a bond and no bond exists, the device refuses
    /// the reads and writes of this program.
    public static let refusing: PairingResponder = {
        var responder = unattended
        responder.refusesAll = true
        responder.acceptsUnauthenticated = false
        return responder
    }()

    /// The same responder, but it refuses a pairing without a passkey and without a comparison.
    public var requiringAuthentication: PairingResponder {
        var responder = self
        responder.acceptsUnauthenticated = false
        return responder
    }

    /// Pairs with a device whose passkey is known. The passkey is a number from 0 to 999 999.
    public static func passkey(_ passkey: UInt32) -> PairingResponder { PairingResponder(passkey: { _ in passkey }) }

    /// Pairs only if a person confirms that both devices show the same number. Such a pairing needs LE Secure Connections on both devices
    /// (Core Specification, Vol 3, Part H, 2.3.5.1). The responder refuses the unauthenticated pairing of a device that cannot show a
    /// number.
    ///
    /// If this program starts the pairing, bluetoothd creates an unauthenticated bond with such a device without a request to this
    /// responder. Therefore call ``DeviceConnection/pair(authenticated:)`` with true. In a peripheral, use the protection
    /// ``LocalCharacteristic/Protection/authenticated``. bluetoothd then refuses the operations of a device with such a bond.
    ///
    /// - Parameter confirmation: returns true if the user confirms that the device shows the second argument, a number with six digits.
    public static func numericComparison(
        _ confirmation: @escaping @Sendable (BluetoothDevice, UInt32) async -> Bool
    ) -> PairingResponder {
        var responder = PairingResponder(confirmation: confirmation)
        responder.acceptsUnauthenticated = false
        return responder
    }

    var capability: String {
        switch (passkey, confirmation) {
        case (.some, .some): "KeyboardDisplay"
        case (.some, nil): "KeyboardOnly"
        case (nil, .some): "DisplayYesNo"
        case (nil, nil): "NoInputNoOutput"
        }
    }
}
