import DBus

/// What bluetoothd asks while a device is paired (BlueZ, `doc/agent-api.txt`): one object for each connection to the bus, that has
/// it answered by whoever connects to the device. It is registered only while somebody can answer, and bluetoothd alone may call it.
///
/// It is the default one for as long, before those of other programs: bluetoothd pairs by itself when a device answers a read or a
/// write with "insufficient authentication", asks the default agent, and repeats what was refused.
actor PairingAgent {
    nonisolated let executor: DBusExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    private struct Entry {
        var ticket: Int
        var device: DBusObjectPath
        var responder: PairingResponder
    }

    private static let path: DBusObjectPath = "/bluez/agent"

    private let bus: DBusConnection
    private let device: @Sendable (DBusObjectPath) async -> BluetoothDevice?
    /// Told of every question, and whether it was answered.
    private let onQuestion: @Sendable (DBusObjectPath, _ wasAnswered: Bool) async -> Void
    private var entries: [Entry] = []
    private var lastTicket = 0
    private var registered: String?
    private var changes = ChangeQueue()
    /// bluetoothd asks one question at a time, and may take it back.
    private var question: Task<[DBusValue]?, Never>?

    init(
        _ bus: DBusConnection, device: @escaping @Sendable (DBusObjectPath) async -> BluetoothDevice?,
        onQuestion: @escaping @Sendable (DBusObjectPath, _ wasAnswered: Bool) async -> Void
    ) {
        self.bus = bus
        self.device = device
        self.onQuestion = onQuestion
        executor = bus.executor
    }

    // MARK: - Who answers

    /// Returns when bluetoothd knows whom to ask. To be ended by `remove`, also when it throws.
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
                // Without it our own `Pair` is answered nevertheless.
                _ = try? await call("RequestDefaultAgent", [.objectPath(Self.path)])
            }
            return .success(())
        } catch {
            await bus.unexport(Self.path)
            return .failure(BlueZError(error, "register a pairing agent"))
        }
    }

    /// bluetoothd asks one agent for all devices.
    private var capability: String? {
        guard let first = entries.first?.responder.capability else { return nil }
        return entries.allSatisfy { $0.responder.capability == first } ? first : "KeyboardDisplay"
    }

    private func call(_ member: String, _ arguments: [DBusValue]) async throws(DBusError) {
        _ = try await bus.call(BlueZName.service, BlueZName.daemon, BlueZName.agentManager, member, arguments)
    }

    // MARK: - What is asked

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
                // A bond that nobody vouches for, begun by bluetoothd itself.
                DBusMethod("RequestAuthorization", takes: [device]) { [weak self] call throws(DBusError) in
                    try await Self.answer(self?.ask(call) { _, _ in [] })
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
        _ call: DBusIncomingCall,
        _ body: @escaping @Sendable (PairingResponder, BluetoothDevice) async -> [DBusValue]?
    ) async -> [DBusValue]? {
        guard let path = call.arguments.first?.objectPath, let device = await device(path),
            let responder = entries.first(where: { $0.device == path })?.responder
        else { return nil }
        let question = Task { await body(responder, device) }
        self.question = question
        let answer = await question.value
        await onQuestion(path, answer != nil)
        return answer
    }

    private static func answer(_ values: [DBusValue]?) throws(DBusError) -> [DBusValue] {
        guard let values else { throw .remote("org.bluez.Error.Rejected", "refused") }
        return values
    }

    private func cancelQuestion() { question?.cancel() }

    private func released() { registered = nil }
}
