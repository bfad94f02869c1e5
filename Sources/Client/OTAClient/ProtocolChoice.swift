import OTAProtocol
import OTASigning
import OTAUpdate

/// Chooses the update protocol from the task, the device and the user's options. Creates the `Conversation` that uses this protocol.
struct ProtocolChoice: Sendable {
    let task: UpdateTask<VerifiedUpdate>
    /// The protocol that the user requires; nil: any protocol.
    let forced: UpdateProtocol?
    let definitions = Protocols.all.map(\.definition)

    /// Creates a session that chooses the protocol when the first link opens. The choice depends on the services of the device.
    ///
    /// - Parameter seed: the seed of the session's random numbers.
    func session(seed: UInt64) -> UpdateSession {
        UpdateSession(seed: seed) { link throws(UpdateError) in
            try definition(on: link).conversation(task)
        }
    }

    /// Creates a session over a transport that has only one channel, and returns this channel. The transport cannot show which protocols
    /// the device offers.
    ///
    /// - Throws: `unsupportedDevice` if the required protocol needs GATT; the errors of `ProtocolDefinition.conversation`.
    func sessionOverOneChannel(seed: UInt64) throws(UpdateError) -> (UpdateSession, Channel) {
        let usable = definitions.first { $0.onlyChannel != nil && (forced == nil || $0.updateProtocol == forced) }
        guard let definition = usable, let channel = definition.onlyChannel else {
            throw UpdateError(.unsupportedDevice, "\(forced?.title ?? "the update protocol") needs Bluetooth")
        }
        return (UpdateSession(try definition.conversation(task), seed: seed), channel)
    }

    /// Returns the protocol for a device.
    ///
    /// If `forced` is not nil, the result is `forced`, even if the device offers no known protocol. The conversation then reports the
    /// missing service. If `forced` is nil, the result is the first protocol of the table that the device offers and that can push the
    /// update of the task.
    ///
    /// - Parameter link: the open link, with the channels that the device offers.
    /// - Throws: `unsupportedDevice` if `forced` is not nil and the device offers only other protocols, or if the device offers no known
    ///   protocol.
    func definition(on link: LinkProperties) throws(UpdateError) -> any ProtocolDefinition {
        let offered = definitions.filter { $0.isOffered(on: link) }
        if let forced {
            guard let definition = definitions.first(where: { $0.updateProtocol == forced }) else {
                throw UpdateError(.unsupportedDevice, "otaflash does not support the protocol '\(forced.rawValue)'")
            }
            guard offered.isEmpty || offered.contains(where: { $0.updateProtocol == forced }) else {
                throw UpdateError(
                    .unsupportedDevice,
                    "--protocol \(forced.rawValue) was given, but the device offers only "
                        + offered.map(\.updateProtocol.title).joined(separator: " and "))
            }
            return definition
        }
        if case .push(let update, _) = task, let able = offered.first(where: { $0.accepts(update) }) { return able }
        guard let first = offered.first else {
            let foreign = link.channels.lazy.compactMap { Protocols.unsupported[$0.service] }.first
            throw UpdateError(
                .unsupportedDevice,
                "it offers no update protocol that otaflash supports ("
                    + definitions.map(\.updateProtocol.title).joined(separator: ", ") + ")"
                    + (foreign.map { "; it offers \($0), which otaflash does not support" } ?? ""))
        }
        return first
    }
}
