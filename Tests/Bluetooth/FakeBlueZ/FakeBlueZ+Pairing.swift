import BlueZ
package import DBus

/// Pairing agents, and a peripheral that requires a bond with a passkey before it accepts a write.
extension FakeBlueZ {
    var agentManager: DBusInterface {
        let path = DBusArgument("agent", .objectPath)
        return DBusInterface(
            BlueZName.agentManager,
            methods: [
                method("RegisterAgent", takes: [path, DBusArgument("capability", .string)]) { fake, call in
                    try fake.register(
                        call.sender, try call.arguments.require(0, \.objectPath),
                        try call.arguments.require(1, \.string))
                },
                method("RequestDefaultAgent", takes: [path]) { fake, call in try fake.prefer(call.sender) },
                method("UnregisterAgent", takes: [path]) { fake, call in try fake.unregister(call.sender) },
            ])
    }

    package var hasAgent: Bool { agent != nil }
    /// The bus name and the path of the registered agent.
    package var agentObject: (owner: String, path: DBusObjectPath)? { agent.map { ($0.owner, $0.path) } }

    private func register(_ owner: String, _ path: DBusObjectPath, _ capability: String) throws -> [DBusValue] {
        guard agent?.owner != owner else { throw DBusError.bluez("AlreadyExists", "Already Exists") }
        agent = (owner, path, capability)
        return []
    }

    private func prefer(_ owner: String) throws -> [DBusValue] {
        guard agent?.owner == owner else { throw DBusError.bluez("DoesNotExist", "Does Not Exist") }
        return []
    }

    private func unregister(_ owner: String) throws -> [DBusValue] {
        guard agent?.owner == owner else { throw DBusError.bluez("DoesNotExist", "Does Not Exist") }
        agent = nil
        return []
    }

    func pair() async throws -> [DBusValue] {
        // bluetoothd would try to pair over BR/EDR.
        guard !isPaired else { throw DBusError.bluez("AuthenticationFailed", "Authentication Failed") }
        guard passkey != nil else {
            // A device without a display and without a keyboard: bluetoothd asks no agent.
            isPaired = true
            await update(Self.device, BlueZName.device, ["Paired": true])
            return []
        }
        guard await askPasskey() == .right else {
            throw DBusError.bluez("AuthenticationFailed", "Authentication Failed")
        }
        return []
    }

    /// Pairs if the device requires it. bluetoothd pairs by itself when the device refuses a request with "insufficient
    /// authentication". If the pairing fails, bluetoothd replies to the request only after the ATT timeout of 30 s.
    func demandBond() async throws {
        guard passkey != nil, !isPaired else { return }
        switch await askPasskey() {
        case .right: return
        case .wrong: drop(reports: true)
        case .refused: break
        }
        // The ATT timeout. The client must not wait for it.
        try await Task.sleep(for: .seconds(30))
    }

    /// Asks the agent to authorize a pairing without a passkey, as bluetoothd does for a pairing that it or the device started. Returns
    /// whether the agent accepted.
    package func asksForAuthorization() async -> Bool { await asks("RequestAuthorization", []) }

    /// Asks the agent whether the device shows the same number, as bluetoothd does in a numeric comparison. Returns whether the agent
    /// accepted.
    package func asksForConfirmation(of number: UInt32) async -> Bool {
        await asks("RequestConfirmation", [.uint32(number)])
    }

    /// The I/O capability of the registered agent.
    package var agentCapability: String? { agent?.capability }

    private func asks(_ member: String, _ arguments: [DBusValue]) async -> Bool {
        guard let agent else { return false }
        let reply = try? await connection?.call(
            agent.owner, agent.path, BlueZName.agent, member, [.objectPath(Self.device)] + arguments)
        return reply != nil
    }

    private enum Outcome { case right, wrong, refused }

    private func askPasskey() async -> Outcome {
        guard let agent, agent.capability != "NoInputNoOutput" else { return .refused }
        do {
            let reply = try await connection?.call(
                agent.owner, agent.path, BlueZName.agent, "RequestPasskey", [.objectPath(Self.device)])
            guard reply?.first?.uint32 == passkey else { return .wrong }
        } catch {
            return .refused
        }
        isPaired = true
        await update(Self.device, BlueZName.device, ["Paired": true])
        return .right
    }
}
